// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Outside returns the state of the pod's cgroup, and whether the given running
// containers are proved to have left it: it is missing, or was made again since, each
// container was created in it, and the kernel says that each runs in another one now.
// What cannot be read proves nothing. Processes are looked at only once the cgroup has
// been seen to be missing.
func (m *Manager) Outside(ctx context.Context, uid types.UID, containerIDs []string) (State, bool) {
	state := m.State(uid)
	suspects := m.suspects(uid)
	switch {
	case state == Hidden:
		return state, false
	case state == Missing:
	case len(suspects) == 0:
		return state, false
	case slices.ContainsFunc(containerIDs, func(id string) bool { return !slices.Contains(suspects, id) }):
		// What started since runs in the cgroup that was made again.
		m.suspect(uid, nil)
		return state, false
	}
	outside, err := m.runOutside(ctx, uid, containerIDs)
	if err == nil && !outside {
		m.suspect(uid, nil)
	} else if state == Missing {
		m.suspect(uid, containerIDs)
	}
	return state, err == nil && outside
}

func (m *Manager) suspects(uid types.UID) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vanished[uid]
}

func (m *Manager) suspect(uid types.UID, containerIDs []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(containerIDs) == 0 {
		delete(m.vanished, uid)
		return
	}
	m.vanished[uid] = slices.Clone(containerIDs)
}

// errNotKnown says that it is unknown where a container runs.
var errNotKnown = errors.New("where the container runs is not known")

// runOutside is whether all these containers run outside the pod's cgroup. An error
// says that this is not known of one of them.
func (m *Manager) runOutside(ctx context.Context, uid types.UID, containerIDs []string) (bool, error) {
	if m.process == nil || len(containerIDs) == 0 {
		return false, errNotKnown
	}
	for _, id := range containerIDs {
		if outside, err := m.runsOutside(ctx, uid, id); err != nil || !outside {
			return false, err
		}
	}
	return true, nil
}

func (m *Manager) runsOutside(ctx context.Context, uid types.UID, id string) (bool, error) {
	pid, made, err := m.process(ctx, id)
	if err != nil {
		return false, err
	}
	if !namesPod(made, uid) {
		// It was created elsewhere, before pods had cgroups of their own, or the
		// runtime does not say: it has not left anything.
		return false, errNotKnown
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	before, err := m.began(dir)
	if err != nil {
		return false, err
	}
	content, err := m.hostRoot.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return false, err
	}
	// A process that exits is in no cgroup of version 1 any more, and its ID may go to
	// another one.
	if after, err := m.began(dir); err != nil || after != before {
		return false, errors.Join(errNotKnown, err)
	}
	if again, _, err := m.process(ctx, id); err != nil || again != pid {
		return false, errors.Join(errNotKnown, err)
	}
	return outside(string(content), uid)
}

// exiting is the kernel's flag of a process that has begun to exit. (PF_EXITING)
const exiting = 0x4

// began is when a process that is not about to exit began, in the kernel's clock
// ticks since boot. (proc_pid_stat(5))
func (m *Manager) began(dir string) (string, error) {
	content, err := m.hostRoot.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return "", err
	}
	// The name before the last parenthesis may hold anything.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("%s/stat is cut off: %w", dir, errNotKnown)
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return "", fmt.Errorf("read the flags in %s/stat: %w", dir, err)
	}
	if state := fields[0]; flags&exiting != 0 || state == "Z" || state == "X" {
		return "", fmt.Errorf("%s exits: %w", dir, errNotKnown)
	}
	return fields[19], nil
}

// outside reads /proc/PID/cgroup: <id>:<controllers>:<path>.
func outside(content string, uid types.UID) (bool, error) {
	lines := 0
	for line := range strings.Lines(content) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			return false, errNotKnown
		}
		lines++
		if namesPod(fields[2], uid) {
			return false, nil
		}
	}
	if lines == 0 {
		return false, errNotKnown
	}
	return true, nil
}

// namesPod is whether a path is that of the pod's cgroup or of one below. A pod's
// cgroup has its UID in its name with either driver and below any parent: a changed
// flag of the shim proves nothing.
func namesPod(path string, uid types.UID) bool {
	name := podName(uid)
	return strings.Contains(path, name) || strings.Contains(path, strings.ReplaceAll(name, "-", "_"))
}
