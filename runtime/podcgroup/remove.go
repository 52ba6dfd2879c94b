// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// A cgroup stays busy for a moment after its last process was reaped.
const (
	cgroupRemovals   = 6
	cgroupRemoveWait = 10 * time.Millisecond
)

// Remove removes the pod's cgroup and empty ones that a runtime has left
// below it. It kills nothing: one with processes is an error.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if err := hostfs.PathPart(string(uid)); err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	path := m.Path(uid)
	if path == "" || cgroups.Mode() == cgroups.Unavailable {
		return nil
	}
	dirs, err := cgroupDirs(path)
	if err != nil {
		return err
	}
	if cgroups.Mode() == cgroups.Hybrid {
		// runc makes a cgroup there too, and leaves its parents.
		dirs = append(dirs, filepath.Join(cgroupMount, "unified", path))
	}
	var stopErr error
	if m.currentDriver() == DriverSystemd {
		stopErr = stopSlice(path)
	}
	for _, dir := range dirs {
		if err := removeCgroupDir(ctx, dir); err != nil {
			return fmt.Errorf("remove cgroup: %w", errors.Join(err, stopErr))
		}
	}
	m.forget(uid)
	return nil
}

// stopSlice has systemd remove a slice. It would kill what is in it, so a slice
// with processes is left alone. An error says why the slice may still be there.
func stopSlice(path string) error {
	dir := filepath.Join(cgroupMount, path)
	if busy, err := populated(dir); busy || err != nil {
		return err
	}
	slice, err := cgroup2.LoadSystemd("", filepath.Base(path))
	if err != nil {
		return fmt.Errorf("load slice %q: %w", path, err)
	}
	if err := slice.DeleteSystemd(); err != nil {
		return fmt.Errorf("stop slice %q: %w", path, err)
	}
	return nil
}

// populated reports whether a v2 cgroup or one below it has processes; one that is
// not there is said to have some, because there is nothing to stop.
func populated(dir string) (bool, error) {
	content, err := os.ReadFile(filepath.Join(dir, "cgroup.events")) //nolint:gosec // a file of the kernel
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return !strings.Contains("\n"+string(content), "\npopulated 0\n"), nil
}

func removeCgroupDir(ctx context.Context, dir string) error {
	wait := cgroupRemoveWait
	for try := 1; ; try++ {
		err := removeDirs(dir)
		if !errors.Is(err, unix.EBUSY) || try == cgroupRemovals {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// removeDirs removes a directory and those below it, deepest first; the files of
// a cgroup go with it.
func removeDirs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeDirs(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
