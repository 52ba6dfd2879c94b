// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/containerd/cgroups/v3"
	"k8s.io/apimachinery/pkg/types"
)

// Usage is what all processes of a pod use, those of its sandbox too.
type Usage struct {
	// CPU is the time on CPUs since the cgroup was made.
	CPU time.Duration
	// WorkingSet in bytes, without the page cache that was not used lately.
	WorkingSet uint64
	// Processes and threads; 0 where they are not counted.
	Processes uint64
}

// UsageOf reads what a pod's cgroup uses. An error of fs.ErrNotExist means that there is none.
func (m *Manager) UsageOf(uid types.UID) (Usage, error) {
	path := m.Path(uid)
	if path == "" {
		return Usage{}, fmt.Errorf("no cgroups are kept: %w", fs.ErrNotExist)
	}
	cpu, err := cpuTime(path)
	if err != nil {
		return Usage{}, fmt.Errorf("read the CPU time of cgroup %s: %w", path, err)
	}
	memory, err := inUse(path, memoryLimit)
	if err != nil {
		return Usage{}, fmt.Errorf("read the memory of cgroup %s: %w", path, err)
	}
	processes, err := inUse(path, pidsLimit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Usage{}, fmt.Errorf("read the processes of cgroup %s: %w", path, err)
	}
	return Usage{CPU: cpu, WorkingSet: uint64(max(memory, 0)), Processes: uint64(max(processes, 0))}, nil
}

// cpuTime is the time of a cgroup on CPUs: version 1 counts nanoseconds.
func cpuTime(path string) (time.Duration, error) {
	text, err := readControl(path, "cpuacct.usage", "cpu.stat")
	if err != nil {
		return 0, err
	}
	if cgroups.Mode() == cgroups.Unified {
		return time.Duration(statistic(text, "usage_usec")) * time.Microsecond, nil
	}
	nanoseconds, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(nanoseconds), err
}
