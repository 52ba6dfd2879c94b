// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

func TestPrepareRefusesBadIdentities(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"no UID":         func(p *corev1.Pod) { p.UID = "" },
		"UID is a path":  func(p *corev1.Pod) { p.UID = "../x" },
		"UID is ..":      func(p *corev1.Pod) { p.UID = ".." },
		"name is a path": func(p *corev1.Pod) { p.Name = "a/b" },
	} {
		t.Run(name, func(t *testing.T) {
			if err := newManager(t, nil).Prepare(t.Context(), testPod(change)); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestRemove(t *testing.T) {
	m := newManager(t, nil)
	pod := withVolumes(emptyDirVolume("mem", corev1.StorageMediumMemory, "1Mi"), emptyDirVolume("disk", "", ""))
	asRoot(t, m, pod)
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "x")
	prepare(t, m, pod)
	disk := emptyDir(m, pod, "disk")
	if err := os.MkdirAll(filepath.Join(disk, "a/b/c"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"file": outside, "dir": filepath.Dir(outside), "up": "../../../.."} {
		if err := os.Symlink(to, filepath.Join(disk, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(filepath.Dir(outside), filepath.Join(disk, "a"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ContainerOptions(t.Context(), pod, &pod.Spec.Containers[0], nil, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing
		if err := m.Remove(t.Context(), IdentityOf(pod)); err != nil {
			t.Fatal(err)
		}
		if exists(m.podDir(pod.UID)) || exists(m.LogDirectory(pod)) {
			t.Error("directories are left")
		}
	}
	if read(t, outside) != "x" {
		t.Error("a file outside of the pod was touched")
	}
}

func TestRemoveReportsABusyMount(t *testing.T) {
	m, pod := newManager(t, nil), withVolumes(emptyDirVolume("v", corev1.StorageMediumMemory, "1Mi"))
	asRoot(t, m, pod)
	prepare(t, m, pod)
	f, err := os.Create(filepath.Join(emptyDir(m, pod, "v"), "open"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), IdentityOf(pod)); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v, want EBUSY", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), IdentityOf(pod)); err != nil {
		t.Errorf("after it is free: %v", err)
	}
}

func TestRemoveFindsLogsByUID(t *testing.T) {
	m, pod := newManager(t, nil), testPod(nil)
	other := testPod(func(p *corev1.Pod) { p.UID = "0f1c-223" })
	for _, p := range []*corev1.Pod{pod, other} {
		if err := os.MkdirAll(m.LogDirectory(p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Remove(t.Context(), Identity{UID: pod.UID}); err != nil {
		t.Fatal(err)
	}
	if exists(m.LogDirectory(pod)) || !exists(m.LogDirectory(other)) {
		t.Error("wanted exactly the logs of that UID to be removed")
	}
}

func TestRemoveRefusesBadIdentities(t *testing.T) {
	m := newManager(t, nil)
	for _, id := range []Identity{{}, {UID: ".."}, {UID: "a/b"}, {UID: "a", Namespace: "../.."}} {
		if err := m.Remove(t.Context(), id); err == nil {
			t.Errorf("%+v is accepted", id)
		}
	}
}

func TestPods(t *testing.T) {
	m := newManager(t, nil)
	prepare(t, m, testPod(nil))
	for i, dir := range []string{
		filepath.Join(m.config.LogRoot, "ns2_logged_u-3"), filepath.Join(m.config.LogRoot, "stray"),
		filepath.Join(m.rootDir, "u-1"), filepath.Join(m.rootDir, "u-2"),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(i, err)
		}
	}
	write(t, filepath.Join(m.rootDir, "u-2", identityFile), `{"uid":"other","name":"x"}`)
	got, err := m.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Identity{{"0f1c-22", "ns", "web"}, {UID: "u-1"}, {UID: "u-2"}, {"u-3", "ns2", "logged"}}
	if len(got) != len(want) {
		t.Fatalf("pods %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("pod %s: %+v, want %+v", strconv.Itoa(i), got[i], want[i])
		}
	}
}

// Log directories on a file system that does not answer block neither the removal of a
// pod, nor the list of pods, nor a start without bound: each fails, to be tried again.
func TestHungLogDirectories(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	m, pod := newManager(t, nil), testPod(nil)
	prepare(t, m, pod)
	m.patience = hostfs.NewPatience(50 * time.Millisecond)
	t.Cleanup(func() { // what hung must have ended when its directory is removed
		for err := errors.New("hung"); err != nil; {
			err = m.patience.Do(context.Background(), m.LogDirectory(pod), func() error { return nil })
		}
	})
	mounttest.MountHung(t, m.config.LogRoot)
	for name, ask := range map[string]func() error{
		"removal": func() error { return m.Remove(t.Context(), IdentityOf(pod)) },
		"list": func() error {
			_, err := m.Pods(t.Context())
			return err
		},
		"start": func() error {
			_, err := m.ContainerOptions(t.Context(), pod, &pod.Spec.Containers[0], nil, 0)
			return err
		},
	} {
		answer := make(chan error, 1)
		go func() { answer <- ask() }()
		select {
		case err := <-answer:
			if !errors.Is(err, hostfs.ErrHung) {
				t.Errorf("%s: error %v, want %v", name, err, hostfs.ErrHung)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: waits for the file system", name)
		}
	}
}

// The pod's cgroup goes with what only running containers need.
func TestCgroupGoesWithThePod(t *testing.T) {
	for name, end := range map[string]func(*Manager, context.Context, Identity) error{
		"released": (*Manager).Release, "removed": (*Manager).Remove,
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod(nil)
			m := withCgroups(t, pod, nil)
			prepare(t, m, pod)
			if len(cgroupDirs(m.CgroupParent(pod))) == 0 {
				t.Fatal("the pod has no cgroup")
			}
			if err := end(m, t.Context(), IdentityOf(pod)); err != nil {
				t.Fatal(err)
			}
			if left := cgroupDirs(m.CgroupParent(pod)); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// The IDs of a user namespace are given to others once the pod has ended, not before.
func TestUserNamespaceIsThePodsUntilItsEnd(t *testing.T) {
	m := newManager(t, nil)
	pod, other := testPod(nil), testPod(func(p *corev1.Pod) { p.UID = "0f1c-223" })
	users := func(p *corev1.Pod) uint32 {
		t.Helper()
		prepare(t, m, p)
		ids, err := m.UserNamespace(p)
		if err != nil {
			t.Fatal(err)
		}
		return ids.First
	}
	for name, end := range map[string]func(context.Context, Identity) error{"released": m.Release, "removed": m.Remove} {
		first, second := users(pod), users(other)
		if first == second || users(pod) != first {
			t.Fatalf("ranges from %d and %d", first, second)
		}
		if err := end(t.Context(), IdentityOf(pod)); err != nil {
			t.Fatal(err)
		}
		if err := m.Remove(t.Context(), IdentityOf(other)); err != nil {
			t.Fatal(err)
		}
		if got := users(other); got != first {
			t.Errorf("%s: the range from %d is not free again, the next pod has that from %d", name, first, got)
		}
		if err := m.Remove(t.Context(), IdentityOf(other)); err != nil {
			t.Fatal(err)
		}
	}
}
