// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Usage is what something uses of CPU and memory.
type Usage struct {
	// Time is when it was measured; zero if it was not.
	Time time.Time
	// CPU is the time on CPUs since the start.
	CPU time.Duration
	// NanoCores is the rate of CPU over Window, which is 0 until something was measured twice.
	NanoCores uint64
	Window    time.Duration
	// WorkingSet in bytes: memory without the page cache that was not used lately.
	WorkingSet uint64
	// Swap is nil where the runtime or the kernel does not say.
	Swap *Swap
}

// Swap in bytes.
type Swap struct{ Used, Available uint64 }

// ContainerStats is what a container that runs uses.
type ContainerStats struct {
	Name, ID string
	Created  time.Time
	Usage
	// Disk and Inodes are those of the writable layer, which the runtime measures now and then.
	Disk, Inodes uint64
}

// PodStats is what a pod uses: of CPU and memory that of its cgroup, which has the sandbox in it.
type PodStats struct {
	UID             types.UID
	Namespace, Name string
	Usage
	// Disk and Inodes are those of the writable layers of containers that run.
	Disk, Inodes uint64
	// Processes is how many processes and threads it has; 0 where the kernel does not say.
	Processes  uint64
	Containers []ContainerStats
}

// sum is what the containers of a pod use together.
func sum(containers []ContainerStats) Usage {
	var all Usage
	for i := range containers {
		c := &containers[i]
		if c.Time.After(all.Time) {
			all.Time = c.Time
		}
		all.CPU += c.CPU
		all.WorkingSet += c.WorkingSet
	}
	return all
}

// rate fills in how much CPU is used at the moment, by an earlier measurement. One that is
// larger is of something else.
func (u *Usage) rate(before Usage) {
	window := u.Time.Sub(before.Time)
	if before.Time.IsZero() || window <= 0 || u.CPU < before.CPU {
		return
	}
	u.Window = window
	u.NanoCores = uint64(float64(u.CPU-before.CPU) / window.Seconds())
}
