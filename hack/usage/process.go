// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage reads what programs under measurement have used: the CPU time and memory
// of a process, and the requests that kube-apiserver has answered. It changes nothing.
package usage

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTicks is the unit of the times in /proc/PID/stat per second, fixed on Linux.
const clockTicks = 100

// CPUTime is the CPU time of a process, of user and system together.
func CPUTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold spaces.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}

// Resident is the memory of a process now, in bytes.
func Resident(pid int) (int64, error) { return statusField(pid, "VmRSS") }

// Anonymous is the part of it that is not a file's pages.
func Anonymous(pid int) (int64, error) { return statusField(pid, "RssAnon") }

// Peak is the largest memory that a process has had at once, in bytes.
func Peak(pid int) (int64, error) { return statusField(pid, "VmHWM") }

func statusField(pid int, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", pid, name)
}
