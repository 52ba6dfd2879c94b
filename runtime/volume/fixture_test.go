// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
)

// impatient is newManager's with little patience.
func impatient(t *testing.T) *Manager {
	t.Helper()
	m := newManager(t, nil)
	m.patience = hostfs.NewPatience(50 * time.Millisecond)
	return m
}

// newManager keeps volumes below a directory of its own; its loop runs until the
// test ends, and what it mounted goes with it.
func newManager(t *testing.T, change func(*Config)) *Manager {
	t.Helper()
	config := Config{
		RootDir:    filepath.Join(t.TempDir(), "pods"),
		NodeMemory: 8 << 30,
		PodMemory:  podcgroup.MemoryLimit,
	}
	if change != nil {
		change(&config)
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if os.Getuid() == 0 {
			if err := hostfs.NewPatience(time.Minute).DetachBelow(context.Background(), m.config.RootDir); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
	})
	return m
}

func testPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "0f1c-22", Namespace: "ns", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
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
	if err := m.WaitForMount(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// bind binds the subPath of the pod's first volume for its first container.
func bind(t *testing.T, m *Manager, pod *corev1.Pod, subPath string, propagation corev1.MountPropagationMode) string {
	t.Helper()
	name := pod.Spec.Volumes[0].Name
	path, ok := m.Path(pod, name)
	if !ok {
		t.Fatalf("no volume %q", name)
	}
	target, err := m.BindSubPath(t.Context(), SubPath{
		PodUID: pod.UID, Volume: name, Container: "c", VolumePath: path, Path: subPath, Propagation: propagation,
	})
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// asRoot skips a test that mounts.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
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

// emptyDir is where an emptyDir lies, and marker what is noted of it.
func (m *Manager) emptyDir(uid types.UID, name string) string {
	return filepath.Join(m.podDir(uid), "volumes/kubernetes.io~empty-dir", name)
}

func (m *Manager) marker(uid types.UID, name string) string {
	return filepath.Join(m.podDir(uid), "plugins/kubernetes.io~empty-dir", name, "ready")
}
