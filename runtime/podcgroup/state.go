// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"errors"
	"io/fs"
	"os"
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
