#!/usr/bin/env bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the archives of the kubectl plugin and the manifests for krew.
#
#   cli/krew/release.sh VERSION FOLDER [PLATFORM...]    such as v1.2.3 bin/krew linux-amd64
#
# Without a platform all of the manifest are built; a manifest needs all of them.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '/^#   /s/^#   //p' "$0" >&2; exit 2; }
version=$1 folder=$2
shift 2
cd "$(dirname "$0")/../.."
mkdir -p "$folder"
manifest=$(cat cli/krew/managedworkload.yaml)
all=$(sed -n 's/^    sha256: "SHA256-\(.*\)"$/\1/p' cli/krew/managedworkload.yaml)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for platform in "${@:-$all}"; do for platform in $platform; do
	os=${platform%-*} arch=${platform#*-} name=kubectl-managedworkload
	[ "$os" != windows ] || name=$name.exe
	rm -rf "${work:?}"/*
	GOFLAGS= CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version" -o "$work/$name" ./cli/cmd/kubectl-managedworkload
	cp LICENSE NOTICE "$work"
	archive=$folder/kubectl-managedworkload-$platform.tar.gz
	# The same archive from the same commit: no times, owners and order of the machine.
	tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - . | gzip -n > "$archive"
	manifest=${manifest//SHA256-$platform/$(sha256sum "$archive" | cut -d' ' -f1)}
done; done
for name in managedworkload mw; do
	text=${manifest//NAME/$name}
	printf '%s\n' "${text//VERSION/$version}" > "$folder/$name.yaml"
done
