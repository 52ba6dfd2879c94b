#!/usr/bin/env bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0

# Sees to it that what comes from the distribution is there: as root on Debian or
# Ubuntu it installs what is missing, otherwise it names what is. None of these
# packages starts a daemon, and no containerd comes with them.
#
#   hack/tools/debian.sh runtime    runc, CNI plugins, iptables, ip
#   hack/tools/debian.sh race       a C compiler for Go's race detector
#   hack/tools/debian.sh userns     what it takes to build runc: a C compiler, headers of libseccomp
#   hack/tools/debian.sh promtool   promtool, unpacked into MW_TOOLS_DIR
#   hack/tools/debian.sh dbus       a dbus-daemon, for a bus of a test's own
#   hack/tools/debian.sh vm         user-mode Linux, and what makes a Debian for it
#   hack/tools/debian.sh browser    a browser and a font, to look at pages
set -euo pipefail

cni_dirs="/usr/lib/cni /opt/cni/bin"

# promtool's package would start a Prometheus: it is unpacked, which needs no root.
download_promtool() { (cd "$unpacked" && apt-get -qq -o APT::Sandbox::User=root download prometheus); }

unpack_promtool() {
	local tools_dir=${MW_TOOLS_DIR:-$(dirname "${BASH_SOURCE[0]}")/../../bin}
	if command -v promtool >/dev/null || [ -x "$tools_dir/promtool" ]; then return; fi
	if ! command -v apt-get >/dev/null; then
		echo "There is neither promtool nor apt-get to get it with: alerts are not tested" >&2
		return
	fi
	unpacked=$(mktemp -d)
	trap 'rm -rf "$unpacked"' EXIT
	# Package lists that are absent or old make the first try fail.
	download_promtool || { apt-get -qq update && download_promtool; }
	dpkg-deb -x "$unpacked"/prometheus_*.deb "$unpacked"
	mkdir -p "$tools_dir"
	mv "$unpacked/usr/bin/promtool" "$tools_dir/promtool"
}

have_cni() {
	local dir plugin
	for dir in $cni_dirs; do
		for plugin in bridge host-local portmap loopback; do
			[ -x "$dir/$plugin" ] || continue 2
		done
		return 0
	done
	return 1
}

PATH=$PATH:/usr/sbin:/sbin
missing=()
case ${1:-} in
runtime)
	command -v runc >/dev/null || missing+=(runc)
	command -v iptables >/dev/null || missing+=(iptables)
	command -v ip >/dev/null || missing+=(iproute2)
	have_cni || missing+=(containernetworking-plugins)
	;;
race)
	command -v "${CC:-gcc}" >/dev/null || command -v clang >/dev/null || missing+=(gcc libc6-dev)
	;;
userns)
	command -v "${CC:-gcc}" >/dev/null || command -v clang >/dev/null || missing+=(gcc libc6-dev)
	command -v pkg-config >/dev/null || missing+=(pkg-config)
	pkg-config --exists libseccomp 2>/dev/null || missing+=(libseccomp-dev)
	;;
promtool)
	unpack_promtool
	;;
dbus)
	command -v dbus-daemon >/dev/null || missing+=(dbus-daemon)
	;;
vm)
	command -v linux.uml >/dev/null || missing+=(user-mode-linux)
	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap debian-archive-keyring)
	command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
	command -v depmod >/dev/null || missing+=(kmod)
	;;
browser)
	command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
	;;
*)
	echo "usage: hack/tools/debian.sh runtime|race|userns|promtool|dbus|vm|browser" >&2
	exit 2
	;;
esac
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "Missing, and there is no apt-get to install it with: ${missing[*]} (Debian's names; CNI plugins belong in one of: $cni_dirs)" >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "Missing: ${missing[*]}. Install with: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi

install() {
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

echo "Installing ${missing[*]} with apt-get: under a minute" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Package lists that are absent or old make the first try fail.
if ! install >"$log" 2>&1 && ! { apt-get update -q && install; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "Could not install: ${missing[*]}" >&2
	exit 1
fi
