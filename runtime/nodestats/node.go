// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// ReadNode is what the whole node uses, by the proc file system at a path. The working set of a
// root cgroup is what is neither free nor page cache that was not used lately.
func ReadNode(proc string) (Usage, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return Usage{}, fmt.Errorf("read what the node uses: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("read the CPU time of the node: %w", err)
	}
	memory, err := fs.Meminfo()
	if err != nil {
		return Usage{}, fmt.Errorf("read the memory of the node: %w", err)
	}
	cpu := stat.CPUTotal
	busy := cpu.User + cpu.Nice + cpu.System + cpu.IRQ + cpu.SoftIRQ + cpu.Steal
	u := Usage{Time: time.Now(), CPU: time.Duration(busy * float64(time.Second))}
	u.WorkingSet = less(bytes(memory.MemTotalBytes), bytes(memory.MemFreeBytes)+bytes(memory.InactiveFileBytes))
	if total := bytes(memory.SwapTotalBytes); total > 0 {
		free := bytes(memory.SwapFreeBytes)
		u.Swap = &Swap{Used: less(total, free), Available: free}
	}
	return u, nil
}

func bytes(value *uint64) uint64 {
	if value == nil {
		return 0
	}
	return *value
}

// less is a - b, or 0.
func less(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}
