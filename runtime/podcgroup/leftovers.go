// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

const (
	// leftoverRounds is how often processes are killed that new ones may follow, and
	// leftoverWait the first wait for their end; each further one is twice as long. (kubelet
	// cm/pod_container_manager_linux.go:tryKillingCgroupProcesses)
	leftoverRounds = 5
	leftoverWait   = 20 * time.Millisecond
)

// Process is one that is left in the cgroup of a pod.
type Process struct {
	PID  int
	Name string
	// Container is the ID of the container in whose cgroup it is; "" for that of the pod.
	Container string
}

func (p Process) String() string { return fmt.Sprintf("%d (%s)", p.PID, p.Name) }

// leftovers are processes by ID.
type leftovers map[int]Process

func (l leftovers) sorted() []Process {
	all := make([]Process, 0, len(l))
	for _, pid := range slices.Sorted(maps.Keys(l)) {
		all = append(all, l[pid])
	}
	return all
}

// KillLeftovers sends SIGKILL to all processes in the cgroup of a pod and below it, and returns them.
// The caller knows that the runtime has none of them: a runtime that was killed itself may have left
// what it was about to make. An error says that some are still there.
// (kubelet cm/pod_container_manager_linux.go:Destroy)
func (m *Manager) KillLeftovers(ctx context.Context, uid types.UID) (killed []Process, err error) {
	if err := hostfs.PathPart(string(uid)); err != nil {
		return nil, fmt.Errorf("kill what is left of pod: %w", err)
	}
	path := m.Path(uid)
	if uid == "" || path == "" || cgroups.Mode() == cgroups.Unavailable {
		return nil, nil
	}
	dirs, err := allDirs(path)
	if err != nil {
		return nil, err
	}
	seen := leftovers{}
	wait := leftoverWait
	for range leftoverRounds {
		left, err := processesIn(dirs)
		if err != nil || len(left) == 0 {
			return seen.sorted(), err
		}
		maps.Copy(seen, left)
		if err := m.killAll(uid, dirs, left); err != nil {
			return seen.sorted(), err
		}
		select {
		case <-ctx.Done():
			return seen.sorted(), context.Cause(ctx)
		case <-time.After(wait):
		}
		wait *= 2
	}
	left, err := processesIn(dirs)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("processes do not end although they were sent SIGKILL: %v", left.sorted())
	}
	return seen.sorted(), err
}

// allDirs are the directories of a cgroup in all hierarchies in which a runtime makes it.
func allDirs(path string) ([]string, error) {
	dirs, err := cgroupDirs(path)
	if cgroups.Mode() == cgroups.Hybrid {
		dirs = append(dirs, filepath.Join(cgroupMount, "unified", path))
	}
	return dirs, err
}

// killAll kills what it can, and lets what was paused end.
func (m *Manager) killAll(uid types.UID, dirs []string, left leftovers) error {
	var errs []error
	for _, process := range left {
		errs = append(errs, m.killIn(uid, process.PID))
	}
	for _, dir := range dirs {
		errs = append(errs, eachCgroup(dir, thawV1))
	}
	return errors.Join(errs...)
}

// killIn kills a process that is in the cgroup of a pod: one that has its ID by then is not.
func (m *Manager) killIn(uid types.UID, pid int) error {
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(process) }()
	content, err := m.hostRoot.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	if !namesPod(string(content), uid) {
		return nil
	}
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// thawV1 lets what is paused in a cgroup of version 1 end; version 2 needs nothing for that.
func thawV1(dir string) error {
	file := filepath.Join(dir, "freezer.state")
	state, err := os.ReadFile(file) //nolint:gosec // a file of the kernel
	if err != nil || strings.TrimSpace(string(state)) == "THAWED" {
		return nil //nolint:nilerr // another hierarchy, or it is gone
	}
	return os.WriteFile(file, []byte("THAWED"), 0)
}

// processesIn are the processes in cgroups and in those below.
func processesIn(dirs []string) (leftovers, error) {
	found := leftovers{}
	for _, top := range dirs {
		err := eachCgroup(top, func(dir string) error {
			content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")) //nolint:gosec // a file of the kernel
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil
			}
			if err != nil {
				return err
			}
			for field := range strings.FieldsSeq(string(content)) {
				pid, err := strconv.Atoi(field)
				if err != nil || pid <= 0 {
					return fmt.Errorf("%s has a process that cannot be seen from here: %q", dir, field)
				}
				container := ""
				if dir != top {
					container = filepath.Base(dir)
				}
				found[pid] = Process{pid, nameOf(pid), container}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for processes that are left: %w", err)
		}
	}
	return found, nil
}

// nameOf is the name of a process, as the kernel has it.
func nameOf(pid int) string {
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(name))
}

// eachCgroup calls do for a cgroup and all below it. One that is gone is no error.
func eachCgroup(dir string, do func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	errs := []error{do(dir)}
	for _, entry := range entries {
		if entry.IsDir() {
			errs = append(errs, eachCgroup(filepath.Join(dir, entry.Name()), do))
		}
	}
	return errors.Join(errs...)
}
