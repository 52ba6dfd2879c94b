// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
)

// nodeResources are what container configurations depend on and what does not change
// while the node is up.
type nodeResources struct {
	// memory is the node's capacity in bytes.
	memory int64
	// unified says that cgroup v2 is in use.
	unified bool
	// swapLimits says that the swap of a cgroup can be limited.
	swapLimits bool
	// hugePages are the page sizes, as cgroup files spell them: 2MB, 1GB.
	hugePages []string
	// maskedPaths of a container whose procMount is Default.
	maskedPaths []string
}

func readNodeResources(ctx context.Context) nodeResources {
	node := nodeResources{hugePages: hugePageSizes("/sys/kernel/mm/hugepages"), maskedPaths: maskedPaths("/sys/devices/system/cpu")}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		logr.FromContextOrDiscard(ctx).Info("Failed to read the node's memory capacity; all burstable containers get the same OOM score",
			"warning", err.Error())
	}
	// The fields' sizes differ between architectures.
	node.memory = int64(uint64(info.Totalram) * uint64(info.Unit))
	var fs unix.Statfs_t
	node.unified = unix.Statfs("/sys/fs/cgroup", &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
	node.swapLimits = swapLimits(node.unified)
	return node
}

// swapLimits finds out whether the cgroup controller for swap is there. (kubelet
// kuberuntime_container_linux.go:checkSwapControllerAvailability)
func swapLimits(unified bool) bool {
	if !unified {
		_, err := os.Stat("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
		return err == nil
	}
	// The root cgroup has no such file; the shim's own does.
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return false
	}
	_, path, _ := strings.Cut(strings.TrimSpace(string(data)), "::")
	_, err = os.Stat(filepath.Join("/sys/fs/cgroup", path, "memory.swap.max")) //nolint:gosec // the kernel names the path
	return err == nil
}

// hugePageSizes lists the kernel's huge page sizes below dir, which holds a
// directory hugepages-<n>kB for each.
func hugePageSizes(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var sizes []string
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB")
		kilobytes, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			continue
		}
		sizes = append(sizes, hugePageName(kilobytes))
	}
	return sizes
}

// hugePageName is a page size as cgroup files spell it.
func hugePageName(kilobytes int64) string {
	switch {
	case kilobytes >= 1<<20:
		return fmt.Sprintf("%dGB", kilobytes>>20)
	case kilobytes >= 1<<10:
		return fmt.Sprintf("%dMB", kilobytes>>10)
	}
	return fmt.Sprintf("%dKB", kilobytes)
}

// maskedPaths are hidden from a container whose procMount is Default; cpus is
// the directory of the kernel's CPUs. (pkg/securitycontext/util.go)
func maskedPaths(cpus string) []string {
	paths := []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	for _, n := range possibleCPUs(filepath.Join(cpus, "possible")) {
		throttle := filepath.Join(cpus, fmt.Sprintf("cpu%d", n), "thermal_throttle")
		if _, err := os.Stat(throttle); err == nil {
			paths = append(paths, throttle)
		}
	}
	return paths
}

// maxCPUs bounds what is believed of the kernel's list.
const maxCPUs = 1 << 14

// possibleCPUs reads a list such as "0-3,8"; when it can't be read, it is the
// CPUs that this process sees. (pkg/securitycontext/util_linux.go)
func possibleCPUs(file string) []int {
	var seen []int
	for i := range runtime.NumCPU() {
		seen = append(seen, i)
	}
	data, err := os.ReadFile(file) //nolint:gosec // a file of the kernel
	if err != nil {
		return seen
	}
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(data)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return seen
		}
		to, err := strconv.Atoi(last)
		if err != nil || from < 0 || to > maxCPUs {
			return seen
		}
		for i := from; i <= to; i++ {
			cpus = append(cpus, i)
		}
	}
	return cpus
}
