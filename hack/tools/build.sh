#!/usr/bin/env bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds pinned tools from their Go modules in this folder, once per version.
#
#   hack/tools/build.sh NAME...
#
# A tool becomes <dir>/NAME-<version> with the link <dir>/NAME, where <dir> is
# MW_TOOLS_DIR or else bin/ at the root of the repository. The versions are
# those of the go.mod files beside this script.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools_dir=${MW_TOOLS_DIR:-$here/../../bin}
mkdir -p "$tools_dir"
tools_dir=$(cd "$tools_dir" && pwd)

# describe NAME sets group (the folder of its module), module, package, the time a
# cold build takes on two cores, cgo (1 if it needs a C compiler) and build tags.
describe() {
	cgo=0 tags=
	case $1 in
	etcd) group=etcd module=go.etcd.io/etcd/server/v3 package=$module takes="1-2 minutes" ;;
	kube-apiserver)
		group=kubernetes module=k8s.io/kubernetes package=$module/cmd/$1 takes="about 5 minutes" ;;
	kubectl | kubelet | kube-controller-manager | kube-scheduler)
		group=kubernetes module=k8s.io/kubernetes package=$module/cmd/$1 takes="1-4 minutes" ;;
	containerd | containerd-shim-runc-v2 | ctr)
		group=containerd module=github.com/containerd/containerd/v2 package=$module/cmd/$1 takes="up to 2 minutes" ;;
	# It is not named runc: containerd takes that from the folder of its tools where its
	# configuration names none.
	runc-userns) group=runc module=github.com/opencontainers/runc package=$module takes="half a minute" cgo=1 tags=seccomp ;;
	crictl) group=cri-tools module=sigs.k8s.io/cri-tools package=$module/cmd/$1 takes="half a minute" ;;
	controller-gen) group=$1 module=sigs.k8s.io/controller-tools package=$module/cmd/$1 takes="half a minute" ;;
	golangci-lint) group=$1 module=github.com/golangci/golangci-lint/v2 package=$module/cmd/$1 takes="3-4 minutes" ;;
	*) echo "hack/tools/build.sh: no tool named $1" >&2 && exit 2 ;;
	esac
}

# link_flags VERSION prints the linker flags for the tool described last.
link_flags() {
	local flags="-s -w" v="k8s.io/component-base/version" minor=${1#v*.}
	if [ "$group" = kubernetes ]; then
		flags+=" -X $v.gitVersion=$1 -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitTreeState=clean"
	elif [ "$group" = containerd ]; then
		flags+=" -X $module/version.Version=$1"
	fi
	echo "$flags"
}

build() {
	local name=$1 version target started
	describe "$name"
	version=$(cd "$here/$group" && go list -m -f '{{.Version}}' "$module")
	target=$tools_dir/$name-$version
	if [ ! -x "$target" ]; then
		echo "Building $name $version into $tools_dir: $takes when nothing is cached" >&2
		started=$SECONDS
		(cd "$here/$group" && GOFLAGS=-mod=readonly CGO_ENABLED=$cgo GOGC=${GOGC:-$("$here/gogc.sh" 2/cpu)} "$here/step.sh" "build of $name" nice -n 10 \
			go build -tags "$tags" -trimpath -gcflags=all=-dwarf=false -buildvcs=false -ldflags "$(link_flags "$version")" -o "$target.new" "$package")
		mv -f "$target.new" "$target"
		echo "Built $name $version in $((SECONDS - started)) s" >&2
	fi
	ln -sfn "$name-$version" "$tools_dir/$name"
}

# Two runs at once would build the same thing twice.
exec 9>"$tools_dir/.tools.lock"
flock -n 9 || { echo "Waiting for another build of tools to end" >&2 && flock 9; }
for name in "$@"; do build "$name"; done
