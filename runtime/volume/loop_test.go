// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

// An emptyDir in memory whose new limit is below its content keeps its size, the
// pod starts, a condition says so, and the size changes once the content fits.
func TestSmallerMemoryVolume(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	changed := make(chan types.UID, 10)
	m := newManager(t, func(c *Config) { c.Changed = func(uid types.UID) { changed <- uid } })
	pod := withVolumes(emptyDirVolume("v", corev1.StorageMediumMemory, "8Mi"), emptyDirVolume("w", "", ""))
	prepare(t, m, pod)
	dir := m.emptyDir(pod.UID, "v")
	data := filepath.Join(dir, "data")
	mounttest.Must(t, os.WriteFile(data, make([]byte, 4<<20), 0o600))
	less := withVolumes(emptyDirVolume("v", corev1.StorageMediumMemory, "2Mi"), emptyDirVolume("w", "", ""))
	for range 3 {
		prepare(t, m, less)
	}
	if got := tmpfsBytes(t, dir); got != 8<<20 {
		t.Errorf("the size is %d bytes, want 8Mi", got)
	}
	conditions := m.Conditions(pod.UID)
	if len(conditions) != 1 {
		t.Fatalf("%d conditions, want 1", len(conditions))
	}
	c := conditions[0]
	const want = `volume "v": the size stays 8Mi until its content (4Mi) fits into the new limit of 2Mi`
	if c.Type != v1alpha1.ConditionVolumeSizePending || c.Status != corev1.ConditionTrue || c.Reason != v1alpha1.ReasonContentExceedsLimit || c.Message != want {
		t.Errorf("condition %+v, want message %q", c, want)
	}
	if got := <-changed; got != pod.UID {
		t.Errorf("%q changed", got)
	}
	mounttest.Must(t, os.Remove(data))
	<-changed // the loop tries again by itself
	if got := tmpfsBytes(t, dir); got != 2<<20 || len(m.Conditions(pod.UID)) > 0 {
		t.Errorf("the size is %d bytes, want 2Mi; conditions %v, want none", got, m.Conditions(pod.UID))
	}
	if len(changed) > 0 {
		t.Error("a change was reported that was none")
	}
}

// A template that loses volumes loses what they held, and no other does.
func TestLostVolumes(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	m := newManager(t, nil)
	pod := withVolumes(emptyDirVolume("mem", corev1.StorageMediumMemory, "1Mi"), emptyDirVolume("disk", "", ""), emptyDirVolume("kept", "", ""))
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "mem", SubPath: "data"}, {Name: "kept", SubPath: "data"}}
	prepare(t, m, pod)
	bind(t, m, pod, "data", corev1.MountPropagationNone)
	for _, name := range []string{"mem", "disk", "kept"} {
		mounttest.Touch(t, m.emptyDir(pod.UID, name), "a/b")
	}
	// A container may still have the file open: it ends up with what it holds.
	less := withVolumes(emptyDirVolume("kept", "", ""), hostPathVolume("disk", "/", ""))
	less.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kept", SubPath: "data"}}
	prepare(t, m, less)
	for path, want := range map[string]bool{
		m.emptyDir(pod.UID, "mem"): false, m.emptyDir(pod.UID, "disk"): false, m.emptyDir(pod.UID, "kept") + "/a/b": true,
		m.marker(pod.UID, "mem"): false, m.marker(pod.UID, "kept"): true,
	} {
		if exists(path) != want {
			t.Errorf("%s is there: %v, want %v", path, !want, want)
		}
	}
	if tmpfsBytes(t, filepath.Dir(m.emptyDir(pod.UID, "mem"))) != tmpfsBytes(t, m.config.RootDir) {
		t.Error("the tmpfs is still mounted")
	}
	// The volume is there again, and empty.
	prepare(t, m, pod)
	if exists(filepath.Join(m.emptyDir(pod.UID, "disk"), "a")) || tmpfsBytes(t, m.emptyDir(pod.UID, "mem")) != 1<<20 {
		t.Error("want an empty volume")
	}
}

// The end of a pod takes its volumes, with all that containers mounted in them; what
// is in use is an error, and goes when it is free.
func TestUnmount(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	m := newManager(t, nil)
	pod := withVolumes(emptyDirVolume("mem", corev1.StorageMediumMemory, "1Mi"), emptyDirVolume("disk", "", ""))
	prepare(t, m, pod)
	bind(t, m, pod, "data", corev1.MountPropagationNone)
	outside := mounttest.Touch(t, t.TempDir(), "outside")
	inside := filepath.Join(m.emptyDir(pod.UID, "mem"), "mnt")
	mounttest.Must(t, os.Mkdir(inside, 0o700))
	mounttest.Must(t, unix.Mount(filepath.Dir(outside), inside, "", unix.MS_BIND, ""))
	logs := mounttest.Touch(t, m.podDir(pod.UID), "containers/c/0123abcd")
	open, err := os.Create(filepath.Join(m.emptyDir(pod.UID, "mem"), "open"))
	mounttest.Must(t, err)
	if err := m.Unmount(t.Context(), pod.UID); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v, want EBUSY", err)
	}
	mounttest.Must(t, open.Close())
	for range 2 { // the second time there is nothing
		mounttest.Must(t, m.Unmount(t.Context(), pod.UID))
	}
	if exists(filepath.Join(m.podDir(pod.UID), "volumes/kubernetes.io~empty-dir")) || exists(filepath.Join(m.podDir(pod.UID), subPathsDir)) {
		t.Error("volumes are left")
	}
	if !exists(logs) || !exists(outside) {
		t.Error("more than the volumes is gone")
	}
	if len(m.pods) > 0 {
		t.Error("the pod is remembered")
	}
}

// The loop tries what failed again by itself, later each time, until it is not
// wanted any more.
func TestLoopRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, nil)
		file := filepath.Join(t.TempDir(), "f")
		pod := withVolumes(hostPathVolume("v", file, corev1.HostPathFile))
		start := time.Now()
		if err := m.WaitForMount(t.Context(), pod); err == nil || time.Since(start) > 0 {
			t.Errorf("error %v after %v, want one at once", err, time.Since(start))
		}
		attempts := func() (int, time.Duration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.pods[pod.UID].answered, m.pods[pod.UID].wait
		}
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			time.Sleep(want / 2)
			synctest.Wait()
			if _, wait := attempts(); wait != want {
				t.Errorf("the next attempt is in %v, want %v", wait, want)
			}
		}
		write(t, file, "")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if _, wait := attempts(); wait != 0 || m.pods[pod.UID].err != nil {
			t.Errorf("the next attempt is in %v, error %v; want none", wait, m.pods[pod.UID].err)
		}
	})
}

// A wait for volumes counts the pass that began after it, not one under way.
func TestWaitSeesItsOwnPass(t *testing.T) {
	m := newManager(t, nil)
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			pod := withVolumes(emptyDirVolume(fmt.Sprintf("v%d", i%2), "", ""))
			pod.UID = types.UID(fmt.Sprintf("pod-%d", i/4))
			if err := m.WaitForMount(t.Context(), pod); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	last := withVolumes(emptyDirVolume("last", "", ""))
	last.UID = "pod-0"
	prepare(t, m, last)
	if names, err := namesIn(filepath.Join(m.podDir("pod-0"), "volumes/kubernetes.io~empty-dir")); err != nil || len(names) != 1 || names[0] != "last" {
		t.Errorf("volumes %v, %v, want those of the last template", names, err)
	}
}

// Run returns once no pass is under way, and waits end with it.
func TestRunEnds(t *testing.T) {
	m, err := New(Config{RootDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := m.WaitForMount(ctx, withVolumes()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

// Names that lead out of the pod's directory are refused, whoever let them in.
func TestBadNames(t *testing.T) {
	m := newManager(t, nil)
	outside := filepath.Join(m.config.RootDir, "0f1c-22", "volumes")
	for _, name := range []string{"", ".", "..", "a/b", "../../x"} {
		if err := m.WaitForMount(t.Context(), withVolumes(emptyDirVolume(name, "", ""))); err == nil {
			t.Errorf("volume %q is accepted", name)
		}
		bad := testPod(func(p *corev1.Pod) { p.UID = types.UID(name) })
		if err := m.WaitForMount(t.Context(), bad); err == nil {
			t.Errorf("UID %q is accepted", name)
		}
		if err := m.Unmount(t.Context(), types.UID(name)); err == nil {
			t.Errorf("UID %q is accepted at the end", name)
		}
		for _, s := range []SubPath{{PodUID: types.UID(name), Volume: "v", Container: "c"}, {PodUID: "u", Volume: name, Container: "c"}, {PodUID: "u", Volume: "v", Container: name}} {
			s.VolumePath, s.Path = "/", "tmp"
			if _, err := m.BindSubPath(t.Context(), s); err == nil || strings.Contains(err.Error(), "mount") {
				t.Errorf("subPath %+v: %v", s, err)
			}
		}
	}
	if exists(outside) {
		t.Error("something was made")
	}
	for _, dir := range []string{"pods", "/dev/null/x"} {
		if _, err := New(Config{RootDir: dir}); err == nil {
			t.Errorf("root %q is accepted", dir)
		}
	}
}

// The marker of an emptyDir counts for the mount that it was written for, and none
// for a mount that the shim did not make.
func TestEmptyDirGoesByWhatIsMounted(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	m, group := newManager(t, nil), int64(2000)
	pod := withVolumes(emptyDirVolume("v", corev1.StorageMediumMemory, "1Mi"))
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	prepare(t, m, pod)
	dir := m.emptyDir(pod.UID, "v")
	// The node rebooted: the marker is there, the tmpfs is not.
	mounttest.Must(t, unix.Unmount(dir, 0))
	mounttest.Must(t, os.Chmod(dir, 0o700))
	prepare(t, m, pod)
	if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|fs.ModeSticky|0o777 || groupOf(t, dir) != 2000 || tmpfsBytes(t, dir) != 1<<20 {
		t.Errorf("%v, %v, group %d, %d bytes; want a new tmpfs that the group may write to", info, err, groupOf(t, dir), tmpfsBytes(t, dir))
	}
	// Something else is in its place.
	mounttest.Must(t, unix.Unmount(dir, 0))
	other := t.TempDir()
	mounttest.Must(t, unix.Mount(other, dir, "", unix.MS_BIND, ""))
	if err := m.WaitForMount(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "a mount that the shim did not make") {
		t.Errorf("error %v", err)
	}
	// On the disk it stays as well: nothing of it is unmounted.
	onDisk := withVolumes(emptyDirVolume("v", "", ""))
	prepare(t, m, onDisk)
	if !mounttest.Mounted(t, dir) {
		t.Error("a mount that the shim did not make was unmounted")
	}
}

// Each new directory of a subPath has the mode of the volume and, in one with an
// fsGroup, its group and setgid.
func TestNewSubPathKeepsTheGroup(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	m, group := newManager(t, nil), int64(2000)
	pod := withVolumes(emptyDirVolume("v", "", ""))
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	prepare(t, m, pod)
	target := bind(t, m, pod, "a/b", corev1.MountPropagationNone)
	for _, dir := range []string{target, filepath.Join(m.emptyDir(pod.UID, "v"), "a")} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o777 || groupOf(t, dir) != 2000 {
			t.Errorf("%s: %v, %v, group %d, want setgid, mode 0777 and group 2000", dir, info, err, groupOf(t, dir))
		}
	}
}

// A panic of what hears about a change ends neither the loop nor the next pass.
func TestPanicAfterAPass(t *testing.T) {
	called := make(chan struct{}, 1)
	m := newManager(t, func(c *Config) {
		c.Changed = func(types.UID) { called <- struct{}{}; panic("a bug") }
	})
	pod := withVolumes(emptyDirVolume("v", "", ""))
	m.mu.Lock()
	m.entry(pod.UID).pending = &corev1.PodCondition{Reason: "Before"}
	m.mu.Unlock()
	prepare(t, m, pod)
	<-called
	if err := m.Unmount(t.Context(), pod.UID); err != nil {
		t.Errorf("unmount after the panic: %v", err)
	}
}
