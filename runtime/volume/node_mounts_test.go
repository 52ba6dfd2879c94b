// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

// subPathPod has a container that mounts sub of a hostPath.
func subPathPod(dir string, propagation corev1.MountPropagationMode) *corev1.Pod {
	pod := withVolumes(hostPathVolume("v", dir, corev1.HostPathUnset))
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{
		Name: "v", MountPath: "/data", SubPath: "data", MountPropagation: &propagation,
	}}
	return pod
}

// What the node mounts below the subPath of a hostPath stays on the node when the
// container restarts, when the template loses the volume, and when the pod ends.
func TestNodesMountsOutliveSubPaths(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	type end func(t *testing.T, m *Manager, pod *corev1.Pod)
	ends := map[string]end{
		"the pod ends": func(t *testing.T, m *Manager, pod *corev1.Pod) {
			mounttest.Must(t, m.Unmount(t.Context(), pod.UID))
		},
		"the container restarts": func(t *testing.T, m *Manager, pod *corev1.Pod) {
			bind(t, m, pod, "data", *pod.Spec.Containers[0].VolumeMounts[0].MountPropagation)
		},
		"the template loses the volume": func(t *testing.T, m *Manager, pod *corev1.Pod) {
			prepare(t, m, withVolumes())
			if target := filepath.Join(m.podDir(pod.UID), subPathsDir, "v/c/0"); exists(target) {
				t.Error("the bind is still there")
			}
		},
	}
	shims := map[string]func(node string) (hostfs.Root, string){
		"on the node":    func(node string) (hostfs.Root, string) { return "", filepath.Join(node, "var/lib") },
		"in a container": func(string) (hostfs.Root, string) { return "", "/var/lib" },
	}
	propagations := map[string]corev1.MountPropagationMode{
		"none": corev1.MountPropagationNone, "host to container": corev1.MountPropagationHostToContainer,
		"bidirectional": corev1.MountPropagationBidirectional,
	}
	for where, shim := range shims {
		for how, propagation := range propagations {
			for name, end := range ends {
				t.Run(where+"/"+how+"/"+name, func(t *testing.T) {
					node := mounttest.SharedRoot(t)
					disk := filepath.Join(node, "var/lib/data/disk")
					mounttest.Must(t, os.MkdirAll(disk, 0o750))
					root, path := shim(node)
					if where == "in a container" {
						// It sees the node's root as a slave of it.
						slave := t.TempDir()
						mounttest.Must(t, unix.Mount(node, slave, "", unix.MS_BIND, ""))
						mounttest.Must(t, unix.Mount("", slave, "", unix.MS_SLAVE, ""))
						t.Cleanup(func() { _ = unix.Unmount(slave, unix.MNT_DETACH) })
						root = hostfs.Root(slave)
					}
					m := newManager(t, func(c *Config) { c.HostRoot, c.RootDir = root, filepath.Join(node, "state/pods") })
					pod := subPathPod(path, propagation)
					prepare(t, m, pod)
					target := bind(t, m, pod, "data", propagation)
					mounttest.MountTmpfs(t, disk)
					precious := mounttest.Touch(t, disk, "precious")
					if !exists(filepath.Join(target, "disk/precious")) {
						t.Error("the node's mount does not show up below the subPath")
					}
					end(t, m, pod)
					if !mounttest.Mounted(t, disk) || !exists(precious) {
						t.Error("the node's own mount is gone")
					}
				})
			}
		}
	}
}

// A mount that a container makes below a subPath reaches the node's volume with
// propagation Bidirectional, and with no other.
func TestPropagationOfSubPaths(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	for propagation, want := range map[corev1.MountPropagationMode]string{
		corev1.MountPropagationNone: "slave", corev1.MountPropagationHostToContainer: "slave", corev1.MountPropagationBidirectional: "shared",
	} {
		t.Run(string(propagation), func(t *testing.T) {
			node := mounttest.SharedRoot(t)
			mounttest.Must(t, os.MkdirAll(filepath.Join(node, "var/data/mnt"), 0o750))
			m := newManager(t, func(c *Config) { c.RootDir = filepath.Join(node, "state/pods") })
			pod := subPathPod(filepath.Join(node, "var"), propagation)
			prepare(t, m, pod)
			target := bind(t, m, pod, "data", propagation)
			if got := mounttest.Propagation(t, target); got != want {
				t.Errorf("the bind is %s, want %s", got, want)
			}
			mounttest.MountTmpfs(t, filepath.Join(target, "mnt"))
			if got := mounttest.Mounted(t, filepath.Join(node, "var/data/mnt")); got != (want == "shared") {
				t.Errorf("the mount reaches the node: %v", got)
			}
		})
	}
}

// A shim in a container whose state directory does not share its mounts with the
// node says so: containers would write to what lies under the mount.
func TestMountsMustReachTheNode(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	node := t.TempDir()
	table := mounttest.Touch(t, node, "proc/1/mountinfo")
	mounttest.Must(t, os.WriteFile(table, []byte("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"), 0o600))
	mounttest.Must(t, os.MkdirAll(filepath.Join(node, "var/data"), 0o750))
	m := newManager(t, func(c *Config) { c.HostRoot = hostfs.Root(node) })
	const want = "needs mount propagation Bidirectional"
	pod := withVolumes(emptyDirVolume("v", corev1.StorageMediumMemory, "1Mi"))
	for range 2 { // the mount that is there now is not enough
		if err := m.WaitForMount(t.Context(), pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tmpfs: error %v, want %q", err, want)
		}
	}
	_, err := m.BindSubPath(t.Context(), SubPath{PodUID: pod.UID, Volume: "h", Container: "c", VolumePath: "/var", Path: "data"})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("subPath: error %v, want %q", err, want)
	}
}

// A hostPath on a network file system that answers nothing holds up neither the
// volumes of other pods nor the end of its own.
func TestHungHostPath(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	nfs := filepath.Join(t.TempDir(), "nfs")
	mounttest.MountHung(t, nfs)
	m := impatient(t)
	pod := withVolumes(hostPathVolume("h", nfs, corev1.HostPathDirectory), emptyDirVolume("e", "", ""))
	for range 2 {
		err := m.WaitForMount(t.Context(), pod)
		if want := `MountVolume.SetUp failed for volume "h" : hostPath type check failed: ` + nfs; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if !exists(m.emptyDir(pod.UID, "e")) {
		t.Error("the other volume of the pod waits for it")
	}
	_, err := m.BindSubPath(t.Context(), SubPath{PodUID: pod.UID, Volume: "h", Container: "c", VolumePath: nfs, Path: "data"})
	if err == nil {
		t.Error("no error from the subPath")
	}
	other := withVolumes(emptyDirVolume("e", "", ""))
	other.UID = "other"
	prepare(t, m, other)
	if err := m.Unmount(t.Context(), pod.UID); err != nil || exists(m.emptyDir(pod.UID, "e")) {
		t.Errorf("unmount: %v", err)
	}
}

// A file system that answers nothing on an emptyDir, which a container with
// propagation Bidirectional can mount there, delays neither its pod's end nor the
// loop's.
func TestHungMountOnAnEmptyDir(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	mediums := map[string]corev1.StorageMedium{"disk": "", "memory": corev1.StorageMediumMemory}
	for name, medium := range mediums {
		for _, below := range []string{"", "sub"} {
			t.Run(name+"/"+below, func(t *testing.T) {
				m := impatient(t)
				pod := withVolumes(emptyDirVolume("e", medium, ""))
				prepare(t, m, pod)
				hung := filepath.Join(m.emptyDir(pod.UID, "e"), below)
				mounttest.MountHung(t, hung)
				pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](7)}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if err := m.WaitForMount(ctx, pod); !errors.Is(err, hostfs.ErrHung) {
					t.Errorf("error %v, want ErrHung", err)
				}
				if err := m.Unmount(ctx, pod.UID); err != nil || exists(m.emptyDir(pod.UID, "e")) {
					t.Errorf("unmount: %v", err)
				}
			})
		}
	}
}
