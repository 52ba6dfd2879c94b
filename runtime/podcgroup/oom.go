// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// OOMKills is how many processes in the pod's cgroup and below the kernel has killed
// for memory since the cgroup was made; false where that cannot be read. On cgroup
// version 1 only a container's own cgroup counts, which is gone when its end is seen.
// (Linux cgroup-v2: memory.events)
func (m *Manager) OOMKills(uid types.UID) (int64, bool) {
	path := m.Path(uid)
	if path == "" {
		return 0, false
	}
	dirs, err := cgroupDirs(path)
	if err != nil {
		return 0, false
	}
	for _, dir := range dirs {
		content, err := os.ReadFile(filepath.Join(dir, "memory.events")) //nolint:gosec // a file of the kernel
		if err == nil {
			return oomKills(string(content))
		}
	}
	return 0, false
}

func oomKills(events string) (int64, bool) {
	for line := range strings.Lines(events) {
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			n, err := strconv.ParseInt(count, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
