// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/cgroups/v3"
)

// limitKind is a limit that a cgroup can have.
type limitKind int

const (
	cpuLimit limitKind = iota
	memoryLimit
	pidsLimit
	limitKinds
)

// limitFiles are the files of each limit by the version of cgroups, those of what is in
// use (none for CPU), the property of a slice, and what is counted.
var limitFiles = [limitKinds]struct{ v1, v2, useV1, useV2, property, unit string }{
	cpuLimit:    {"cpu.cfs_quota_us", "cpu.max", "", "", "CPUQuotaPerSecUSec", "microseconds"},
	memoryLimit: {"memory.limit_in_bytes", "memory.max", "memory.usage_in_bytes", "memory.current", "MemoryMax", "bytes of memory"},
	pidsLimit:   {"pids.max", "pids.max", "pids.current", "pids.current", "TasksMax", "processes and threads"},
}

// periodV1 is the file of the period of a CPU quota, which v2 has in one with the quota.
const periodV1 = "cpu.cfs_period_us"

// noMemoryLimitV1 is less than what version 1 shows for no limit, which is the largest
// multiple of the page size.
const noMemoryLimitV1 = int64(1) << 62

// controlFile is the path of a control file of a cgroup, which has a name in each
// version. In version 1 the name begins with that of the hierarchy.
func controlFile(path, v1, v2 string) string {
	if cgroups.Mode() == cgroups.Unified {
		return filepath.Join(cgroupMount, path, v2)
	}
	hierarchy, _, _ := strings.Cut(v1, ".")
	return filepath.Join(cgroupMount, hierarchy, path, v1)
}

// readLimit reads a limit: microseconds in each quotaPeriod, bytes or a number;
// withoutLimit if there is none.
func readLimit(path string, k limitKind) (int64, error) {
	text, err := readControl(path, limitFiles[k].v1, limitFiles[k].v2)
	if err != nil {
		return 0, err
	}
	if k == cpuLimit && cgroups.Mode() != cgroups.Unified {
		period, err := readControl(path, periodV1, "")
		if err != nil {
			return 0, err
		}
		text += " " + period
	}
	return parseLimit(k, text)
}

func readControl(path, v1, v2 string) (string, error) {
	content, err := os.ReadFile(controlFile(path, v1, v2))
	return strings.TrimSpace(string(content)), err
}

// parseLimit takes what the kernel shows: a CPU quota with its period.
func parseLimit(k limitKind, text string) (int64, error) {
	value, period, _ := strings.Cut(text, " ")
	if value == "max" || value == "-1" {
		return withoutLimit, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse limit %q: %w", text, err)
	}
	switch {
	case k == memoryLimit && n >= noMemoryLimitV1:
		return withoutLimit, nil
	case k == cpuLimit:
		p, err := strconv.ParseInt(period, 10, 64)
		if err != nil || p <= 0 {
			return 0, fmt.Errorf("parse the period of CPU quota %q", text)
		}
		return int64(float64(n) / float64(p) * quotaPeriod), nil
	}
	return n, nil
}

// writeLimit writes a limit, in the units of readLimit.
func writeLimit(path string, k limitKind, value int64) error {
	text := strconv.FormatInt(value, 10)
	unified := cgroups.Mode() == cgroups.Unified
	if value == withoutLimit && (unified || k == pidsLimit) {
		text = "max"
	}
	switch {
	case k == cpuLimit && unified:
		text += " " + strconv.Itoa(quotaPeriod)
	case k == cpuLimit && value != withoutLimit:
		if err := setPeriodV1(path); err != nil {
			return err
		}
	}
	return writeControl(path, limitFiles[k].v1, limitFiles[k].v2, text)
}

// setPeriodV1 makes the period that of all quotas here. A quota that is in force could
// be more of the new period than the kernel takes.
func setPeriodV1(path string) error {
	want := strconv.Itoa(quotaPeriod)
	if now, err := readControl(path, periodV1, ""); err != nil || now == want {
		return err
	}
	if err := writeControl(path, limitFiles[cpuLimit].v1, "", "-1"); err != nil {
		return err
	}
	return writeControl(path, periodV1, "", want)
}

func writeControl(path, v1, v2, value string) error {
	return os.WriteFile(controlFile(path, v1, v2), []byte(value), 0o600)
}

// writePids limits the processes of a pod on version 1.
func writePids(path string, value int64) error {
	err := writeLimit(path, pidsLimit, value)
	if value == withoutLimit && errors.Is(err, fs.ErrNotExist) {
		return nil // there is no such hierarchy
	}
	return err
}

// inUse is how much of a limited resource the processes of a cgroup and those below
// hold: bytes beside the page cache that was not used lately, or processes and threads.
// CPU is not held.
func inUse(path string, k limitKind) (int64, error) {
	files := limitFiles[k]
	if files.useV1 == "" {
		return 0, nil
	}
	text, err := readControl(path, files.useV1, files.useV2)
	if err != nil {
		return 0, err
	}
	use, err := strconv.ParseInt(text, 10, 64)
	if err != nil || k != memoryLimit {
		return use, err
	}
	stat, err := readControl(path, "memory.stat", "memory.stat")
	if err != nil {
		return 0, err
	}
	cache := "total_inactive_file"
	if cgroups.Mode() == cgroups.Unified {
		cache = "inactive_file"
	}
	return max(use-statistic(stat, cache), 0), nil
}

// statistic is a line of memory.stat, in bytes; 0 if it is not there.
func statistic(stat, name string) int64 {
	for line := range strings.Lines(stat) {
		value, found := strings.CutPrefix(strings.TrimSpace(line), name+" ")
		if n, err := strconv.ParseInt(value, 10, 64); found && err == nil {
			return n
		}
	}
	return 0
}
