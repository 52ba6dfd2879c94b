// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// Prepare makes the pod's place: directories, volumes, cgroup. It may be called
// before every sync; what is there stays as it is.
func (m *Manager) Prepare(ctx context.Context, pod *corev1.Pod) error {
	id := IdentityOf(pod)
	if err := id.validate(); err != nil {
		return fmt.Errorf("prepare pod: %w", err)
	}
	if err := m.makePodDirs(id); err != nil {
		return fmt.Errorf("prepare pod %q: %w", id.UID, err)
	}
	if err := m.ensureCgroup(ctx, pod); err != nil {
		return fmt.Errorf("prepare pod %q: %w", id.UID, err)
	}
	for i := range pod.Spec.Volumes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("prepare pod %q: %w", id.UID, context.Cause(ctx))
		}
		volume := &pod.Spec.Volumes[i]
		if err := m.setUpVolume(pod, volume); err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", volume.Name, err)
		}
	}
	return nil
}

// makePodDirs also writes down whose directory it is: a UID alone does not lead
// to the logs. (kubelet_pods.go:makePodDataDirs)
func (m *Manager) makePodDirs(id Identity) error {
	dir := m.podDir(id.UID)
	for _, d := range []string{dir, filepath.Join(dir, containersDir)} {
		if err := os.MkdirAll(d, podDirMode); err != nil {
			return err
		}
	}
	file := filepath.Join(dir, identityFile)
	if _, err := os.Lstat(file); err == nil {
		return nil
	}
	content, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

func (m *Manager) setUpVolume(pod *corev1.Pod, volume *corev1.Volume) error {
	switch {
	case volume.HostPath != nil:
		return m.setUpHostPath(pod, volume)
	case volume.EmptyDir != nil:
		return m.setUpEmptyDir(pod, volume)
	default:
		return fmt.Errorf("its source is not supported")
	}
}

// volumePath is where the volume lies on the host.
func (m *Manager) volumePath(pod *corev1.Pod, name string) (string, bool) {
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.Name != name:
		case volume.HostPath != nil:
			return volume.HostPath.Path, true
		case volume.EmptyDir != nil:
			return m.emptyDir(pod.UID, name), true
		}
	}
	return "", false
}
