// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/volume"
)

// newManager keeps no cgroups and has a node of known size; the loop of its volumes
// runs until the test ends.
func newManager(t *testing.T, change func(*Config)) *Manager {
	t.Helper()
	return managerWith(t, podcgroup.Config{}, change)
}

func managerWith(t *testing.T, cgroup podcgroup.Config, change func(*Config)) *Manager {
	t.Helper()
	dir := t.TempDir()
	config := Config{
		LogRoot:       filepath.Join(dir, "logs"),
		NodeName:      "node-1",
		NodeIPs:       []string{"10.0.0.1", "fd00::1"},
		ClusterDomain: "cluster.local",
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("4"),
			corev1.ResourceMemory:           resource.MustParse("8Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		},
	}
	if change != nil {
		change(&config)
	}
	volumes, err := volume.New(volume.Config{RootDir: filepath.Join(dir, "pods"), HostRoot: config.HostRoot})
	if err != nil {
		t.Fatal(err)
	}
	cgroups, err := podcgroup.New(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(config, volumes, cgroups)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- volumes.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m
}

// withCgroups keeps cgroups below a parent of its own, which goes with the test.
func withCgroups(t *testing.T, pod *corev1.Pod, process func(context.Context, string) (int, string, error)) *Manager {
	t.Helper()
	if os.Getuid() != 0 || cgroups.Mode() == cgroups.Unavailable {
		t.Skip("needs root and cgroups")
	}
	config := podcgroup.Config{Parent: "/mwtest-dir-" + strconv.Itoa(os.Getpid()), Process: process}
	m := managerWith(t, config, nil)
	t.Cleanup(func() {
		if err := m.cgroups.Remove(context.Background(), pod.UID); err != nil {
			t.Error(err)
		}
		for _, dir := range cgroupDirs(config.Parent) {
			_ = os.Remove(dir)
		}
	})
	return m
}

// cgroupDirs are the directories of a cgroup that are there.
func cgroupDirs(path string) []string {
	unified, _ := filepath.Glob("/sys/fs/cgroup" + path)
	controllers, _ := filepath.Glob("/sys/fs/cgroup/*" + path)
	return append(unified, controllers...)
}

// emptyDir is where a volume of the pod lies.
func emptyDir(m *Manager, pod *corev1.Pod, name string) string {
	return filepath.Join(m.podDir(pod.UID), "volumes/kubernetes.io~empty-dir", name)
}

func testPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "0f1c-22", Namespace: "ns", Name: "web",
			Labels:      map[string]string{"app": "web", "a.b/c": "d"},
			Annotations: map[string]string{"note": "a \"b\""},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: "sa",
			DNSPolicy:          corev1.DNSClusterFirst,
			Containers:         []corev1.Container{{Name: "c"}},
		},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func withVolumes(volumes ...corev1.Volume) *corev1.Pod {
	return testPod(func(p *corev1.Pod) { p.Spec.Volumes = volumes })
}

func hostPathVolume(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

func emptyDirVolume(name string, medium corev1.StorageMedium, limit string) corev1.Volume {
	source := &corev1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		quantity := resource.MustParse(limit)
		source.SizeLimit = &quantity
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}}
}

func prepare(t *testing.T, m *Manager, pod *corev1.Pod) {
	t.Helper()
	if err := m.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// asRoot skips a test that mounts, and removes the pod's place after it.
func asRoot(t *testing.T, m *Manager, pod *corev1.Pod) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	t.Cleanup(func() {
		if err := hostfs.NewPatience(time.Minute).DetachBelow(context.Background(), m.podDir(pod.UID)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
