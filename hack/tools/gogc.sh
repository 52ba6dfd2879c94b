#!/usr/bin/env bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the GOGC of a step that needs some GiB of memory with the value 400: a quarter to a
# half of what compilers and linters cost is garbage collection. Where there is less
# memory, or nothing tells, it prints Go's default.
#
#   hack/tools/gogc.sh 16
#   hack/tools/gogc.sh 2/cpu
set -euo pipefail

needed=${1%/cpu}
if [ "$needed" != "$1" ]; then needed=$((needed * $(getconf _NPROCESSORS_ONLN))); fi

available=$(awk '$1 == "MemAvailable:" {print int($2 / 1024 / 1024)}' /proc/meminfo 2>/dev/null || echo 0)
for limit in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
	if [ -r "$limit" ] && bytes=$(<"$limit") && [ "$bytes" != max ] && ((bytes >> 30 < available)); then available=$((bytes >> 30)); fi
done
if ((available >= needed)); then echo 400; else echo 100; fi
