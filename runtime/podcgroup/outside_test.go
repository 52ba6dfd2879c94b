// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

func TestOutsideByTheKernelsWord(t *testing.T) {
	const uid = "0f1c-22"
	tests := map[string]struct {
		content   string
		want      bool
		wantDoubt bool
	}{
		"v1, in it":                {content: "2:memory:/managedworkload/mw0f1c-22/c1\n1:cpu:/managedworkload/mw0f1c-22/c1\n"},
		"v1, out of it":            {content: "2:memory:/system.slice/c1\n1:cpu:/\n0::/system.slice\n", want: true},
		"v1, out of one hierarchy": {content: "2:memory:/managedworkload/mw0f1c-22/c1\n1:cpu:/\n"},
		"v2, in it":                {content: "0::/managedworkload/mw0f1c-22/c1\n"},
		"v2, in it by systemd":     {content: "0::/managedworkload.slice/managedworkload-mw0f1c_22.slice/cri-containerd-c1.scope\n"},
		"v2, below another parent": {content: "0::/before.slice/before-mw0f1c_22.slice/c1\n"},
		"v2, out of it":            {content: "0::/system.slice/c1\n", want: true},
		"v2, another pod's":        {content: "0::/managedworkload/mw0f1c-23/c1\n", want: true},
		"seen from another root":   {content: "0::/../../managedworkload/mw0f1c-22/c1\n"},
		"removed under it":         {content: "0::/managedworkload/mw0f1c-22/c1 (deleted)\n"},
		"empty":                    {content: "", wantDoubt: true},
		"not what a kernel writes": {content: "nonsense\n", wantDoubt: true},
		"a line that is cut off":   {content: "0::/system.slice\n1:cpu\n", wantDoubt: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := outside(tt.content, uid); got != tt.want || (err != nil) != tt.wantDoubt {
				t.Errorf("outside: %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// fakeProc is a /proc with processes, and the runtime that knows them.
type fakeProc struct {
	t    *testing.T
	root string
	// made is the cgroup that a container was created in.
	made      map[string]string
	processes map[string]int
	asked     int
	// onAsk runs before each answer of the runtime.
	onAsk func()
}

func newFakeProc(t *testing.T) *fakeProc {
	return &fakeProc{t: t, root: t.TempDir(), made: map[string]string{}, processes: map[string]int{}}
}

// run adds the first process of a container that was created in made and is in path.
func (f *fakeProc) run(id string, pid int, made, path string) {
	f.made[id], f.processes[id] = made, pid
	f.file(pid, "cgroup", "0::"+path+"\n")
	f.stat(pid, "S", 0x400000, 4711)
}

// stat writes what the kernel says of a process; its name is as bad as it may be.
func (f *fakeProc) stat(pid int, state string, flags, began int) {
	f.file(pid, "stat", fmt.Sprintf("%d (a) S 4 (b) %s 1 1 1 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 %d 1 1\n", pid, state, flags, began))
}

func (f *fakeProc) file(pid int, name, content string) {
	mounttest.Must(f.t, os.WriteFile(mounttest.Touch(f.t, f.root, "proc", strconv.Itoa(pid), name), []byte(content), 0o600))
}

func (f *fakeProc) process(_ context.Context, id string) (int, string, error) {
	f.asked++
	if f.onAsk != nil {
		f.onAsk()
	}
	pid, ok := f.processes[id]
	if !ok {
		return 0, "", errors.New("unknown")
	}
	return pid, f.made[id], nil
}

// Containers are killed only when all are proved to have left the pod's cgroup.
func TestContainersRunOutside(t *testing.T) {
	const in, out = "/managedworkload/mwuid/c", "/system.slice"
	for name, tt := range map[string]struct {
		ids       []string
		edit      func(*fakeProc)
		want      bool
		wantDoubt bool
	}{
		"all":                {ids: []string{"out", "too"}, want: true},
		"made by systemd":    {ids: []string{"systemd"}, want: true},
		"one is in it":       {ids: []string{"out", "in"}},
		"one is not known":   {ids: []string{"out", "unknown"}, wantDoubt: true},
		"one is gone":        {ids: []string{"out", "too"}, edit: func(f *fakeProc) { _ = os.RemoveAll(f.root + "/proc/11") }, wantDoubt: true},
		"no container runs":  {wantDoubt: true},
		"it was never in it": {ids: []string{"out"}, edit: func(f *fakeProc) { f.made["out"] = "/k8s.io/out" }, wantDoubt: true},
		"the runtime does not say what it was made in": {
			ids: []string{"out"}, edit: func(f *fakeProc) { f.made["out"] = "" }, wantDoubt: true,
		},
		"it is a zombie":   {ids: []string{"out"}, edit: func(f *fakeProc) { f.stat(10, "Z", 0x400000, 4711) }, wantDoubt: true},
		"it is exiting":    {ids: []string{"out"}, edit: func(f *fakeProc) { f.stat(10, "R", 0x400004, 4711) }, wantDoubt: true},
		"stat is cut off":  {ids: []string{"out"}, edit: func(f *fakeProc) { f.file(10, "stat", "10 (a) S 1 1") }, wantDoubt: true},
		"stat is empty":    {ids: []string{"out"}, edit: func(f *fakeProc) { f.file(10, "stat", "") }, wantDoubt: true},
		"its process went": {ids: []string{"out"}, edit: func(f *fakeProc) { f.onAsk = func() { f.processes["out"] = 10 + f.asked%2 } }, wantDoubt: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			f.run("out", 10, in, out)
			f.run("too", 11, in, "/")
			f.run("in", 12, in, in)
			f.run("systemd", 13, "managedworkload-mwuid.slice:cri-containerd:c", out)
			if tt.edit != nil {
				tt.edit(f)
			}
			m := newManager(t, Config{Parent: "/managedworkload", HostRoot: hostfs.Root(f.root), Process: f.process})
			if got, err := m.runOutside(t.Context(), "uid", tt.ids); got != tt.want || (err != nil) != tt.wantDoubt {
				t.Errorf("outside: %v, %v, want %v", got, err, tt.want)
			}
		})
	}
	if got, err := newManager(t, Config{Parent: "/managedworkload"}).runOutside(t.Context(), "uid", []string{"out"}); got || err == nil {
		t.Error("outside without a way to know")
	}
}

// A cgroup that is made again does not hide that the containers have left it, while
// it is not known where they run. Processes are looked at only then.
func TestOutsideOfACgroupThatIsMadeAgain(t *testing.T) {
	in := func(m *Manager, pod *corev1.Pod) string { return m.Path(pod.UID) + "/c" }
	tests := map[string]struct {
		// found is where the container is found while the cgroup is missing; empty if it
		// cannot be read.
		found   string
		running []string // afterwards
		want    bool
		asked   bool // afterwards
	}{
		"nothing was proved":              {running: []string{"c1"}, want: true, asked: true},
		"it was proved":                   {found: "/", running: []string{"c1"}, want: true, asked: true},
		"the container was in it":         {found: "in", running: []string{"c1"}},
		"another container has started":   {running: []string{"c1", "c2"}},
		"the container was started again": {running: []string{"c2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			base, pod := cgroupManager(t), withResources(corev1.ResourceRequirements{})
			m := newManager(t, Config{Parent: base.parent, HostRoot: hostfs.Root(f.root), Process: f.process})
			prepare(t, m, pod)
			check := func(when string, ids []string, wantState State, want, asked bool) {
				t.Helper()
				f.asked = 0
				state, outside := m.Outside(t.Context(), pod.UID, ids)
				if state != wantState || outside != want || (f.asked > 0) != asked {
					t.Errorf("%s: state %v, outside %v, asked %d times, want %v, %v", when, state, outside, f.asked, wantState, want)
				}
			}
			f.run("c1", 10, in(m, pod), "/")
			check("it is there", []string{"c1"}, Present, false, false)
			if err := m.Remove(t.Context(), pod.UID); err != nil {
				t.Fatal(err)
			}
			switch tt.found {
			case "":
				delete(f.processes, "c1")
			case "in":
				f.run("c1", 10, in(m, pod), in(m, pod))
			}
			check("it is gone", []string{"c1"}, Missing, tt.found == "/", true)
			prepare(t, m, pod)
			f.run("c1", 10, in(m, pod), "/")
			f.run("c2", 11, in(m, pod), in(m, pod))
			check("it was made again", tt.running, Present, tt.want, tt.asked)
			f.run("c1", 10, in(m, pod), in(m, pod))
			check("they are in it", tt.running, Present, false, tt.asked)
			check("they are known to be in it", tt.running, Present, false, false)
			m.suspect(pod.UID, []string{"c1"})
			if err := m.Remove(t.Context(), pod.UID); err != nil || len(m.suspects(pod.UID)) > 0 {
				t.Errorf("%v; %v is remembered of a pod that is gone", err, m.suspects(pod.UID))
			}
		})
	}
}

// An ID of a pod with the driver of systemd has underscores.
func TestNamesPod(t *testing.T) {
	uid := types.UID("0f1c-22")
	for path, want := range map[string]bool{
		"/managedworkload/mw0f1c-22/c1":                     true,
		"managedworkload-mw0f1c_22.slice:cri-containerd:c1": true,
		"/k8s.io/c1": false,
		"":           false,
	} {
		if got := namesPod(path, uid); got != want || strings.Contains(path, "22") != want {
			t.Errorf("%q names the pod: %v", path, got)
		}
	}
}
