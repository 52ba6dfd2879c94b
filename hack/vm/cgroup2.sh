#!/usr/bin/env bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs tests on cgroup v2 with systemd, whatever this machine has: in user-mode
# Linux, a kernel that is a process here, with a small Debian on it.
#
#   hack/vm/cgroup2.sh [-d cgroupfs|systemd] [-l] [-r REGEXP] PACKAGE...
#
# -d says who makes the cgroups of containers (cgroupfs), -r which tests run (all). With -l there
# is a logind, and a test may shut the machine down: that waits until the results are written.
# Needs root on x86-64 Linux with apt-get, and 6 GiB of memory, but no KVM. There is
# one CPU, and what starts processes takes about ten times as long as here.
# The Debian is kept in MW_VM_DIR, or else bin/vm; MW_VM_TIMEOUT (60m) ends a run.
set -euo pipefail

say() { echo "vm: $*" >&2; }
skip() { say "skipped: $*" && exit 0; }
usage() { say "usage: hack/vm/cgroup2.sh [-d cgroupfs|systemd] [-l] [-r REGEXP] PACKAGE..." && exit 2; }

driver=cgroupfs regexp=. logind=
while getopts d:lr: option; do
	case $option in
	d) driver=$OPTARG ;;
	l) logind=yes ;;
	r) regexp=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage
[ "$(uname -sm)" = "Linux x86_64" ] || skip "this needs Linux on x86-64"
[ "$(id -u)" = 0 ] || skip "this needs root"
command -v apt-get >/dev/null || skip "this needs Debian's packages, and there is no apt-get"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"$root/hack/tools/debian.sh" vm
mkdir -p "${MW_VM_DIR:-$root/bin/vm}"
cache=$(cd "${MW_VM_DIR:-$root/bin/vm}" && pwd)
exec 9>"$cache/lock"
flock -n 9 || { say "waiting for another run to end" && flock 9; }
work=$(mktemp -d "$cache/run.XXXXXX")
machine=
clean() {
	if [ -n "$machine" ]; then
		kill "$machine" 2>/dev/null || true
		wait "$machine" || true
	fi
	rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start is what the machine runs once it is up. It sees this one's files below
# /mw/host, and may write to copies of them.
start() {
	cat <<-'START'
		exec </dev/null >/dev/tty0 2>&1
		export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
		. <(tr ' ' '\n' </proc/cmdline | grep '^MW_') # the variables below
		export MW_CGROUP_DRIVER MW_TOOLS_DIR MW_PROGRAMS=$MW_WORK/bin KUBEBUILDER_ASSETS=$MW_ASSETS
		for dir in "$MW_ROOT" "$MW_TOOLS_DIR" "$MW_ASSETS"; do
			copy=$(mktemp -d /mw/copy.XXX)
			mkdir -p "$dir" "$copy/upper" "$copy/work"
			mount -t overlay -o "lowerdir=/mw/host$dir,upperdir=$copy/upper,workdir=$copy/work" overlay "$dir" || exit
		done
		mkdir -p "$MW_WORK" && mount -t hostfs -o "$MW_WORK" none "$MW_WORK" || exit
		modprobe -a br_netfilter iptable_nat xt_comment xt_MASQUERADE dummy 2>/dev/null
		# A kubelet asks for a default route.
		ip link add mw-dummy type dummy && ip address add 10.0.2.15/24 dev mw-dummy
		ip link set mw-dummy up && ip route add default via 10.0.2.2
		if [ -n "$MW_LOGIND" ]; then
			export MW_LOGIND
			systemctl start dbus.service systemd-logind.service || exit
			systemd-inhibit --what=shutdown --mode=delay --who=mw.service --why="the results are written first" sleep infinity &
		fi
		status=0
		while read -r number dir; do
			echo "vm: $dir"
			cd "$dir" && "$MW_WORK/$number.test" -test.v -test.run "$(cat "$MW_WORK/regexp")" -test.timeout 55m || status=1
		done <"$MW_WORK/packages"
		echo $status >"$MW_WORK/status"
	START
}

attempt() {
	"$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2 && say "failed: $*" && exit 1; }
}

make_image() {
	say "Making a small Debian in $cache: one to three minutes, once"
	local tree=$work/tree name
	attempt mmdebstrap --variant=minbase --include="$packages" bookworm "$tree"
	mkdir -p "$tree/usr/lib/modules" "$tree/mw"
	cp -a /usr/lib/uml/modules/* "$tree/usr/lib/modules/"
	for name in "$tree"/usr/lib/modules/*; do attempt depmod -b "$tree" "${name##*/}"; done
	# This kernel has no NAT for nftables.
	for name in iptables ip6tables; do ln -sfn "/usr/sbin/$name-legacy" "$tree/etc/alternatives/$name"; done
	start >"$tree/mw/start"
	echo "none /mw/host hostfs ro 0 0" >"$tree/etc/fstab"
	printf '[Service]\n%s\n' Type=oneshot "ExecStart=/bin/bash /mw/start" "ExecStopPost=/bin/systemctl poweroff --force" \
		Delegate=yes LimitNOFILE=1048576 >"$tree/etc/systemd/system/mw.service"
	attempt mkfs.ext4 -q -d "$tree" "$work/image" 20G
	mv "$work/image" "$cache/image"
	rm -rf --one-file-system "$tree"
	echo "$recipe" >"$cache/recipe"
}

packages=kmod,systemd-sysv,dbus,udev,runc,containernetworking-plugins,iptables,iproute2
recipe=$(linux.uml --version && cat "${BASH_SOURCE[0]}")
[ -e "$cache/image" ] && [ "$(cat "$cache/recipe" 2>/dev/null)" = "$recipe" ] || make_image

say "Building the programs and $# packages of tests: some minutes when nothing is cached"
cd "$root"
export CGO_ENABLED=0
go build -buildvcs=false -o "$work/bin/" . ./hack/testprogram
number=0
while read -r dir; do
	number=$((number + 1))
	go test -c -o "$work/$number.test" "$dir"
	echo "$number $dir" >>"$work/packages"
done < <(go list -f '{{.Dir}}' "$@")
[ "$number" -gt 0 ] || exit 1
echo "$regexp" >"$work/regexp"

say "Booting; the first line of a test follows within two minutes"
tools=${MW_TOOLS_DIR:-$root/bin}
memory=/dev/shm # where the machine's memory is a file
[ "$(df --output=avail -B1G /dev/shm 2>/dev/null | tail -n 1)" -gt 6 ] 2>/dev/null || memory=$work
TMPDIR=$memory timeout --foreground "${MW_VM_TIMEOUT:-60m}" linux.uml mem=6G ubd0="$work/cow,$cache/image" root=/dev/ubda rw \
	con=null con0=null,fd:1 loglevel=1 systemd.show_status=false systemd.unified_cgroup_hierarchy=1 systemd.unit=mw.service \
	MW_CGROUP_DRIVER="$driver" MW_LOGIND="$logind" MW_ROOT="$root" MW_TOOLS_DIR="$tools" MW_ASSETS="${KUBEBUILDER_ASSETS:-$tools}" MW_WORK="$work" \
	</dev/null > >(sed -u 's/\r$//' | grep -a --line-buffered -v '^{') &
machine=$!
wait "$machine" || true
machine=
[ -s "$work/status" ] || { say "the machine ended before the tests" && exit 1; }
exit "$(cat "$work/status")"
