// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

// nodeNamespace returns a way to do something in a copy of the mount namespace of now,
// which stands for the node's.
func nodeNamespace(t *testing.T) func(do func() error) {
	t.Helper()
	calls, results := make(chan func() error), make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, because it is not unlocked
		results <- unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		for call := range calls {
			results <- call()
		}
	}()
	mounttest.Must(t, <-results)
	t.Cleanup(func() { close(calls) })
	return func(do func() error) {
		t.Helper()
		calls <- do
		mounttest.Must(t, <-results)
	}
}

// mountsOfThread are the mounts at a path and below it, in the caller's namespace.
func mountsOfThread(dir string) ([]*mountinfo.Info, error) {
	table, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer table.Close() //nolint:errcheck // only read
	return mountinfo.GetMountsFromReader(table, mountinfo.PrefixFilter(dir))
}

// A shim in a container has a mount namespace of its own: the node's root is a slave
// there, the state directory shares its mounts with the node. What the node mounts below
// a subPath stays on the node when the pod ends, and nothing of the pod is left.
func TestNodesMountsOutliveAShimInItsNamespace(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	for _, propagation := range []corev1.MountPropagationMode{
		corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional,
	} {
		t.Run(string(propagation), func(t *testing.T) {
			node := mounttest.SharedRoot(t)
			disk, state := filepath.Join(node, "var/lib/data/disk"), filepath.Join(node, "state")
			mounttest.Must(t, os.MkdirAll(disk, 0o750))
			mounttest.Must(t, os.MkdirAll(state, 0o750))
			onNode := nodeNamespace(t)

			// From here on this is the shim's namespace.
			host, moved := t.TempDir(), t.TempDir()
			mounttest.Must(t, unix.Mount(node, host, "", unix.MS_BIND|unix.MS_REC, ""))
			mounttest.Must(t, unix.Mount("", host, "", unix.MS_SLAVE|unix.MS_REC, ""))
			mounttest.Must(t, unix.Mount(state, moved, "", unix.MS_BIND, ""))
			mounttest.Must(t, unix.Unmount(node, unix.MNT_DETACH))
			mounttest.Must(t, os.MkdirAll(state, 0o750))
			mounttest.Must(t, unix.Mount(moved, state, "", unix.MS_MOVE, ""))
			t.Cleanup(func() {
				_ = unix.Unmount(state, unix.MNT_DETACH)
				_ = unix.Unmount(host, unix.MNT_DETACH)
			})

			m := newManager(t, func(c *Config) { c.HostRoot, c.RootDir = hostfs.Root(host), filepath.Join(state, "pods") })
			pod := subPathPod("/var/lib", propagation)
			prepare(t, m, pod)
			target := bind(t, m, pod, "data", propagation)
			onNode(func() error {
				if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(disk, "precious"), []byte("x"), 0o600); err != nil {
					return err
				}
				if !exists(filepath.Join(target, "disk/precious")) {
					t.Error("the node's mount does not show up below the subPath")
				}
				return nil
			})
			mounttest.Must(t, m.Unmount(t.Context(), pod.UID))
			onNode(func() error {
				if !exists(filepath.Join(disk, "precious")) {
					t.Error("the node's own mount is gone")
				}
				left, err := mountsOfThread(filepath.Join(state, "pods"))
				if len(left) > 0 {
					t.Errorf("left on the node: %v", left)
				}
				return err
			})
		})
	}
}
