// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// freezer is the cgroup of a container in the hierarchy that pauses it.
type freezer struct {
	// mount is that of the hierarchy, path the container's cgroup in it.
	mount, path string
	unified     bool
}

// Paused is whether a container is paused, by the kernel's word about its first process. What
// cannot be read says nothing.
func (m *Manager) Paused(ctx context.Context, uid types.UID, containerID string) bool {
	f, err := m.freezerOf(ctx, uid, containerID)
	return err == nil && f.frozen()
}

// Thaw resumes a container that SIGKILL cannot reach: its cgroup and those below it in which its
// first process is, never that of the pod, which others share. On cgroup v2 SIGKILL reaches what is
// paused, so nothing is resumed there: it would act on an earlier stop signal first.
func (m *Manager) Thaw(ctx context.Context, uid types.UID, containerID string) (resumed bool, err error) {
	f, err := m.freezerOf(ctx, uid, containerID)
	if err != nil {
		return false, fmt.Errorf("find the cgroup of container %q: %w", containerID, err)
	}
	if f.unified {
		return false, nil
	}
	var errs []error
	for path := f.path; namesPod(filepath.Dir(path), uid); path = filepath.Dir(path) {
		errs = append(errs, f.at(path).thaw())
	}
	err = errors.Join(errs...)
	return err == nil, err
}

// freezerOf finds the cgroup of a container of a pod. An error says that it is not known, or
// not the pod's.
func (m *Manager) freezerOf(ctx context.Context, uid types.UID, containerID string) (freezer, error) {
	if m.process == nil {
		return freezer{}, errNotKnown
	}
	pid, _, err := m.process(ctx, containerID)
	if err != nil {
		return freezer{}, err
	}
	content, err := m.hostRoot.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return freezer{}, err
	}
	f, err := m.freezerIn(string(content))
	if err != nil || !namesPod(filepath.Dir(f.path), uid) {
		return freezer{}, errors.Join(errNotKnown, err)
	}
	return f, nil
}

// freezerIn reads /proc/PID/cgroup: <id>:<controllers>:<path>. The hierarchy of version 1
// counts where there is one.
func (m *Manager) freezerIn(content string) (freezer, error) {
	var found freezer
	for line := range strings.Lines(content) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3 || !strings.HasPrefix(fields[2], "/") || slices.Contains(strings.Split(fields[2], "/"), ".."):
		case slices.Contains(strings.Split(fields[1], ","), "freezer"):
			return freezer{mount: filepath.Join(m.cgroupMount, "freezer"), path: fields[2]}, nil
		case fields[1] == "":
			found = freezer{mount: m.cgroupMount, path: fields[2], unified: true}
		}
	}
	if found.path == "" {
		return freezer{}, errNotKnown
	}
	return found, nil
}

func (f freezer) at(path string) freezer {
	f.path = path
	return f
}

func (f freezer) file(name string) string { return filepath.Join(f.mount, f.path, name) }

// frozen is whether the cgroup is paused, or one above it.
func (f freezer) frozen() bool {
	if f.unified {
		events, err := os.ReadFile(f.file("cgroup.events"))
		return err == nil && slices.Contains(strings.Split(string(events), "\n"), "frozen 1")
	}
	state, err := os.ReadFile(f.file("freezer.state"))
	return err == nil && strings.TrimSpace(string(state)) != "THAWED"
}

func (f freezer) thaw() error {
	return os.WriteFile(f.file("freezer.state"), []byte("THAWED"), 0)
}
