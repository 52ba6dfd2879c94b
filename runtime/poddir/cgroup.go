// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const cgroupMount = "/sys/fs/cgroup"

// CgroupParent is the pod's cgroup as CRI wants it: the parent of its sandbox and
// containers; empty when none is kept.
func (m *Manager) CgroupParent(pod *corev1.Pod) string {
	return m.cgroupPath(pod.UID)
}

func (m *Manager) cgroupPath(uid types.UID) string {
	if m.config.CgroupParent == "" {
		return ""
	}
	name := "mw" + string(uid)
	if m.cgroupDriver() == CgroupDriverSystemd {
		return systemdPath(m.config.CgroupParent, name)
	}
	return filepath.Join("/", m.config.CgroupParent, name)
}

func (m *Manager) cgroupDriver() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.driver
}

// systemdPath nests slices as systemd does: /a with b is /a.slice/a-b.slice. A
// dash within a name becomes an underscore. (cm/cgroup_manager_linux.go:ToSystemd)
func systemdPath(parent, name string) string {
	path, unit := "/", ""
	for part := range strings.SplitSeq(filepath.Join(parent, name), "/") {
		if part == "" {
			continue
		}
		if unit != "" {
			unit += "-"
		}
		unit += strings.ReplaceAll(strings.TrimSuffix(part, ".slice"), "-", "_")
		path = filepath.Join(path, unit+".slice")
	}
	return path
}

// ensureCgroup makes the pod's cgroup with its limits, or changes the limits of
// one that is there. A memory limit below what is in use waits for a later call:
// setting it now would have the kernel kill what should end gracefully.
func (m *Manager) ensureCgroup(ctx context.Context, pod *corev1.Pod) error {
	path := m.cgroupPath(pod.UID)
	if path == "" {
		return nil
	}
	limits, done := podLimits(pod), m.remembered(pod.UID)
	if done.limits != nil && *done.limits == limits && cgroupExists(path) {
		return nil
	}
	apply := limits
	if limits.memory != withoutLimit && memoryUse(path) > limits.memory {
		apply.memory = withoutLimit
	}
	if err := applyLimits(ctx, path, m.cgroupDriver(), apply); err != nil {
		return fmt.Errorf("make cgroup %q: %w", path, err)
	}
	done.limits = &apply
	return nil
}

func applyLimits(ctx context.Context, path, driver string, limits cgroupLimits) error {
	mode := cgroups.Mode()
	switch {
	case mode == cgroups.Unavailable:
		return errors.New("no cgroups are mounted on " + cgroupMount)
	case mode != cgroups.Unified && driver == CgroupDriverSystemd:
		return errors.New("the systemd cgroup driver needs cgroup v2")
	case mode != cgroups.Unified:
		_, err := cgroup1.New(cgroup1.StaticPath(path), resourcesV1(limits))
		return err
	case driver == CgroupDriverSystemd:
		return applySlice(ctx, path, limits)
	default:
		_, err := cgroup2.NewManager(cgroupMount, path, resourcesV2(limits))
		return err
	}
}

func resourcesV1(limits cgroupLimits) *specs.LinuxResources {
	period := uint64(quotaPeriod)
	return &specs.LinuxResources{
		CPU:    &specs.LinuxCPU{Shares: &limits.shares, Quota: &limits.quota, Period: &period},
		Memory: &specs.LinuxMemory{Limit: &limits.memory},
	}
}

func resourcesV2(limits cgroupLimits) *cgroup2.Resources {
	weight, period := cgroup2.ConvertCPUSharesToCgroupV2Value(limits.shares), uint64(quotaPeriod)
	quota, memory := &limits.quota, limits.memory
	if limits.quota == withoutLimit {
		quota = nil
	}
	if limits.memory == withoutLimit {
		memory = math.MaxInt64 // the kernel takes it as max
	}
	return &cgroup2.Resources{
		CPU:    &cgroup2.CPU{Weight: &weight, Max: cgroup2.NewCPUMax(quota, &period)},
		Memory: &cgroup2.Memory{Max: &memory},
		Pids:   &cgroup2.Pids{Max: withoutLimit},
	}
}

// cgroupDirs are the directories of a cgroup: one for each v1 hierarchy, or one.
func cgroupDirs(path string) ([]string, error) {
	if cgroups.Mode() == cgroups.Unified {
		return []string{filepath.Join(cgroupMount, path)}, nil
	}
	subsystems, err := cgroup1.Default()
	if err != nil {
		return nil, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	var dirs []string
	for _, s := range subsystems {
		if in, ok := s.(interface{ Path(string) string }); ok {
			dirs = append(dirs, in.Path(path))
		}
	}
	return dirs, nil
}

func cgroupExists(path string) bool {
	dirs, err := cgroupDirs(path)
	if err != nil {
		return false
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return false
		}
	}
	return true
}

// memoryUse is in bytes; 0 when there is no such cgroup.
func memoryUse(path string) int64 {
	file := filepath.Join(cgroupMount, "memory", path, "memory.usage_in_bytes")
	if cgroups.Mode() == cgroups.Unified {
		file = filepath.Join(cgroupMount, path, "memory.current")
	}
	content, err := os.ReadFile(file) //nolint:gosec // a file of the kernel
	if err != nil {
		return 0
	}
	use, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return 0
	}
	return use
}
