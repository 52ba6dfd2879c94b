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

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// State says whether a pod's cgroup is there.
type State int

const (
	// Present says that it is there in every hierarchy, or none is kept.
	Present State = iota
	// Missing says that a hierarchy can be seen and does not have it.
	Missing
	// Hidden says that a hierarchy cannot be seen, so that nothing is known.
	Hidden
)

// State asks the cgroup file systems, and takes a failed look for nothing: a
// /sys/fs/cgroup that cannot be seen says nothing about a pod.
func (m *Manager) State(uid types.UID) State {
	path := m.Path(uid)
	if path == "" {
		return Present
	}
	dirs, err := cgroupDirs(path)
	if err != nil || len(dirs) == 0 {
		return Hidden
	}
	state := Present
	for _, dir := range dirs {
		_, err := os.Stat(dir)
		switch {
		case err == nil:
		case !errors.Is(err, fs.ErrNotExist) || !isCgroupFS(strings.TrimSuffix(dir, path)):
			return Hidden
		default:
			state = Missing
		}
	}
	return state
}

// isCgroupFS says that a directory is the mount of a cgroup hierarchy, not the
// empty place for one.
func isCgroupFS(dir string) bool {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return false
	}
	return s.Type == unix.CGROUP_SUPER_MAGIC || s.Type == unix.CGROUP2_SUPER_MAGIC
}

// RunOutside says that all these containers are proved to run outside the pod's
// cgroup, by what the kernel says of their processes. What cannot be read proves
// nothing.
func (m *Manager) RunOutside(ctx context.Context, uid types.UID, containerIDs []string) bool {
	if m.processID == nil || len(containerIDs) == 0 {
		return false
	}
	for _, id := range containerIDs {
		if outside, err := m.runsOutside(ctx, uid, id); err != nil || !outside {
			return false
		}
	}
	return true
}

func (m *Manager) runsOutside(ctx context.Context, uid types.UID, id string) (bool, error) {
	pid, err := m.processID(ctx, id)
	if err != nil {
		return false, err
	}
	content, err := m.hostRoot.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cgroup"))
	if err != nil {
		return false, err
	}
	// A process ID may have gone to another process meanwhile.
	if again, err := m.processID(ctx, id); err != nil || again != pid {
		return false, err
	}
	return outside(string(content), uid), nil
}

// outside reads /proc/PID/cgroup: <id>:<controllers>:<path>. A pod's cgroup has its
// UID in its name with either driver and below any parent: a changed flag of the
// shim proves nothing.
func outside(content string, uid types.UID) bool {
	names := []string{"mw" + string(uid), "mw" + strings.ReplaceAll(string(uid), "-", "_")}
	lines := 0
	for line := range strings.Lines(content) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			return false
		}
		lines++
		for _, name := range names {
			if strings.Contains(fields[2], name) {
				return false
			}
		}
	}
	return lines > 0
}
