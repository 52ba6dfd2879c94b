// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/containerd/cgroups/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leave runs a program in a cgroup below that of a pod, in all hierarchies; a name of "" is the pod's own.
func leave(t *testing.T, m *Manager, uid types.UID, name string) *exec.Cmd {
	t.Helper()
	program := exec.CommandContext(t.Context(), "sleep", "600")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = program.Wait() }() // as whoever inherits them does
	t.Cleanup(func() { _ = program.Process.Kill(); <-ended })
	dirs, err := cgroupDirs(m.Path(uid))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		in := filepath.Join(dir, name)
		if filepath.Base(dir) == podName(uid) && !exists(dir) {
			continue
		}
		if err := os.MkdirAll(in, 0o755); err != nil {
			t.Fatal(err)
		}
		if inherits := filepath.Join(in, "cpuset.cpus"); exists(inherits) {
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				write(t, filepath.Join(in, file), read(t, filepath.Join(dir, file)))
			}
		}
		write(t, filepath.Join(in, "cgroup.procs"), strconv.Itoa(program.Process.Pid))
	}
	return program
}

// What a runtime has left in the cgroup of a pod that ended is killed, also what is paused, and the
// cgroup can be removed. What is in the cgroup of another pod runs on.
func TestKillLeftovers(t *testing.T) {
	if os.Getuid() != 0 || cgroups.Mode() == cgroups.Unavailable {
		t.Skip("needs root and cgroups")
	}
	m := newManager(t, Config{Parent: "/mw-leftovers-test-" + strconv.Itoa(os.Getpid())})
	pods := []*corev1.Pod{testPod(nil), testPod(func(p *corev1.Pod) { p.UID = "another" })}
	for _, pod := range pods {
		prepare(t, m, pod)
		t.Cleanup(func() {
			for _, dir := range must(t, m, pod.UID) {
				_ = removeDirs(dir)
				_ = os.Remove(filepath.Dir(dir))
			}
		})
	}
	uid := pods[0].UID
	direct, below, other := leave(t, m, uid, ""), leave(t, m, uid, "c0ffee"), leave(t, m, pods[1].UID, "c0ffee")
	for _, dir := range must(t, m, uid) {
		if file := filepath.Join(dir, "c0ffee", "freezer.state"); exists(file) {
			write(t, file, "FROZEN")
		}
	}
	if err := m.Remove(t.Context(), uid); err == nil {
		t.Error("a cgroup with processes was removed")
	}
	killed, err := m.KillLeftovers(t.Context(), uid)
	want := []Process{{direct.Process.Pid, "sleep", ""}, {below.Process.Pid, "sleep", "c0ffee"}}
	slices.SortFunc(want, func(a, b Process) int { return a.PID - b.PID })
	if err != nil || !slices.Equal(killed, want) {
		t.Errorf("killed %v, error %v, want %v", killed, err, want)
	}
	if err := m.Remove(t.Context(), uid); err != nil {
		t.Error(err)
	}
	if killed, err := m.KillLeftovers(t.Context(), uid); err != nil || len(killed) > 0 {
		t.Errorf("of nothing: killed %v, error %v", killed, err)
	}
	if left, err := processesIn(must(t, m, pods[1].UID)); err != nil || left[other.Process.Pid].Name != "sleep" {
		t.Errorf("another pod has %v, error %v", left, err)
	}
}

func must(t *testing.T, m *Manager, uid types.UID) []string {
	t.Helper()
	dirs, err := allDirs(m.Path(uid))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// A process that has its ID from one that was in the cgroup is not killed.
func TestKillLeftoversOfAnotherCgroup(t *testing.T) {
	program := exec.CommandContext(t.Context(), "sleep", "600")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- program.Wait() }()
	m := newManager(t, Config{Parent: "/mw-leftovers-test-" + strconv.Itoa(os.Getpid())})
	if err := m.killIn("0f1c-22", program.Process.Pid); err != nil {
		t.Error(err)
	}
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("it does not run: %v", err)
	}
	if err := <-done; err == nil || err.Error() != "signal: interrupt" {
		t.Errorf("ended with %v", err)
	}
	for _, uid := range []types.UID{"", "..", "a/b"} {
		if killed, err := m.KillLeftovers(t.Context(), uid); len(killed) > 0 || err == nil {
			t.Errorf("%q: killed %v, error %v", uid, killed, err)
		}
	}
}
