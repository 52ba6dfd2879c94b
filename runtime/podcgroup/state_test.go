// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
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

func TestOutside(t *testing.T) {
	const uid = "0f1c-22"
	tests := map[string]struct {
		content string
		want    bool
	}{
		"v1, in it":                {"2:memory:/managedworkload/mw0f1c-22/c1\n1:cpu:/managedworkload/mw0f1c-22/c1\n", false},
		"v1, out of it":            {"2:memory:/system.slice/c1\n1:cpu:/\n0::/system.slice\n", true},
		"v1, out of one hierarchy": {"2:memory:/managedworkload/mw0f1c-22/c1\n1:cpu:/\n", false},
		"v2, in it":                {"0::/managedworkload/mw0f1c-22/c1\n", false},
		"v2, in it by systemd":     {"0::/managedworkload.slice/managedworkload-mw0f1c_22.slice/cri-containerd-c1.scope\n", false},
		"v2, below another parent": {"0::/before.slice/before-mw0f1c_22.slice/c1\n", false},
		"v2, out of it":            {"0::/system.slice/c1\n", true},
		"v2, another pod's":        {"0::/managedworkload/mw0f1c-23/c1\n", true},
		"seen from another root":   {"0::/../../managedworkload/mw0f1c-22/c1\n", false},
		"empty":                    {"", false},
		"not what a kernel writes": {"nonsense\n", false},
		"a line that is cut off":   {"0::/system.slice\n1:cpu\n", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := outside(tt.content, uid); got != tt.want {
				t.Errorf("outside: %v, want %v", got, tt.want)
			}
		})
	}
}

// Containers are killed only when all are proved to run outside.
func TestRunOutside(t *testing.T) {
	root := t.TempDir()
	processes := map[string]int{"out": 10, "too": 11, "in": 12, "gone": 13}
	for pid, path := range map[int]string{10: "/system.slice", 11: "/", 12: "/managedworkload/mwuid/c"} {
		mounttest.Must(t, os.WriteFile(mounttest.Touch(t, root, "proc", strconv.Itoa(pid), "cgroup"), []byte("0::"+path+"\n"), 0o600))
	}
	asked := 0
	config := Config{Parent: "/managedworkload", HostRoot: hostfs.Root(root), ProcessID: func(_ context.Context, id string) (int, error) {
		asked++
		switch pid, ok := processes[id]; {
		case ok:
			return pid, nil
		case id == "replaced": // its process ID went to another process
			return 10 + asked%2, nil
		default:
			return 0, errors.New("unknown")
		}
	}}
	for name, tt := range map[string]struct {
		ids  []string
		want bool
	}{
		"all":                 {[]string{"out", "too"}, true},
		"one is in it":        {[]string{"out", "in"}, false},
		"one cannot be read":  {[]string{"out", "gone"}, false},
		"one is not known":    {[]string{"out", "unknown"}, false},
		"its process changed": {[]string{"replaced"}, false},
		"no container runs":   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newManager(t, config).RunOutside(t.Context(), "uid", tt.ids); got != tt.want {
				t.Errorf("outside: %v, want %v", got, tt.want)
			}
		})
	}
	if newManager(t, Config{Parent: "/managedworkload"}).RunOutside(t.Context(), "uid", []string{"out"}) {
		t.Error("outside without a way to know")
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
