// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

func TestState(t *testing.T) {
	if got := newManager(t, Config{}).State("0f1c-22"); got != Present {
		t.Errorf("without pod cgroups: %v, want Present", got)
	}
	m, pod := cgroupManager(t), withResources(corev1.ResourceRequirements{})
	if got := m.State(pod.UID); got != Missing {
		t.Errorf("before it is made: %v, want Missing", got)
	}
	prepare(t, m, pod)
	if got := m.State(pod.UID); got != Present {
		t.Errorf("after: %v, want Present", got)
	}
	dirs, err := cgroupDirs(m.Path(pod.UID))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dirs[0]); err != nil {
		t.Fatal(err)
	}
	if got := m.State(pod.UID); got != Missing {
		t.Errorf("without one hierarchy: %v, want Missing", got)
	}
	prepare(t, m, pod)
	if got := m.State(pod.UID); got != Present {
		t.Errorf("made again: %v, want Present", got)
	}
}

// A /sys/fs/cgroup that cannot be seen says nothing about pods: neither an empty
// directory in its place nor one of its hierarchies that is not mounted.
func TestStateOfWhatCannotBeSeen(t *testing.T) {
	if cgroups.Mode() == cgroups.Unavailable {
		t.Skip("needs cgroups")
	}
	if !mounttest.Isolate(t) {
		return
	}
	m, pod := cgroupManager(t), withResources(corev1.ResourceRequirements{})
	prepare(t, m, pod)
	dirs, err := cgroupDirs(m.Path(pod.UID))
	if err != nil {
		t.Fatal(err)
	}
	hierarchy := dirs[0][:len(dirs[0])-len(m.Path(pod.UID))]
	for _, over := range []string{hierarchy, cgroupMount} {
		mounttest.Must(t, unix.Mount("tmpfs", over, "tmpfs", 0, ""))
		if got := m.State(pod.UID); got != Hidden {
			t.Errorf("below an empty %s: %v, want Hidden", over, got)
		}
		mounttest.Must(t, unix.Unmount(over, unix.MNT_DETACH))
	}
	if got := m.State(pod.UID); got != Present {
		t.Errorf("in sight again: %v, want Present", got)
	}
}

// A cgroup that is busy for a moment after its last process was reaped is tried
// again.
func TestBusyCgroupIsTriedAgain(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "cgroup")
	mounttest.MountTmpfs(t, dir) // rmdir says EBUSY
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(5*cgroupRemoveWait, func() { _ = unix.Unmount(dir, 0) })
		if err := removeCgroupDir(t.Context(), dir); err != nil {
			t.Error(err)
		}
	})
	if exists(dir) {
		t.Error("it is still there")
	}
}

// A UID is a part of a path, and nothing else.
func TestBadUID(t *testing.T) {
	m := newManager(t, Config{Parent: "/managedworkload"})
	pod := testPod(func(p *corev1.Pod) { p.UID = "../../x" })
	if err := m.Ensure(t.Context(), pod); err == nil {
		t.Error("made")
	}
	if err := m.Remove(t.Context(), pod.UID); err == nil {
		t.Error("removed")
	}
}
