#!/usr/bin/env bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs a step and, where MW_STEPS names a file, notes there how long it took and how
# busy the processors were meanwhile.
#
#   hack/tools/step.sh NAME COMMAND...   run a step
#   hack/tools/step.sh --table           print what was noted
set -euo pipefail

# ticks prints how long the processors were busy, and how long there were any, in ticks.
ticks() {
	if [ -r /proc/stat ]; then
		awk '$1 == "cpu" {print $2+$3+$4+$7+$8, $2+$3+$4+$5+$6+$7+$8}' /proc/stat
	else
		echo 0 0
	fi
}

if [ "${1:-}" = --table ]; then
	[ -s "${MW_STEPS:-}" ] || exit 0
	echo "Where the time went"
	printf '%8s  %5s  %s\n' seconds busy step
	cat "$MW_STEPS"
	exit
fi

name=$1
shift
started=$SECONDS
read -r busy all < <(ticks)
status=0
"$@" || status=$?
read -r busy_then all_then < <(ticks)
if [ -n "${MW_STEPS:-}" ]; then
	share=- spent=$((all_then - all))
	if [ "$spent" -gt 0 ]; then share=$((100 * (busy_then - busy) / spent))%; fi
	if [ "$status" -ne 0 ]; then name+=" (failed)"; fi
	printf '%8d  %5s  %s\n' $((SECONDS - started)) "$share" "$name" >>"$MW_STEPS"
fi
exit "$status"
