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

// Reasons of the kubelet's events about a place that could not be made.
// (kubelet events/event.go)
const (
	reasonFailedMount                  = "FailedMount"
	reasonFailedCreatePodContainer     = "FailedCreatePodContainer"
	reasonFailedMakePodDataDirectories = "FailedMakePodDataDirectories"
)

// prepareError is why a pod's place could not be made, as the kubelet's event says
// it.
type prepareError struct {
	reason string
	err    error
}

func (e *prepareError) Error() string { return e.err.Error() }

func (e *prepareError) Unwrap() error { return e.err }

// EventReason is the reason of the event that says so.
func (e *prepareError) EventReason() string { return e.reason }

// Prepare makes what a pod's starts need: cgroup, directories, volumes. It may be
// called before every sync; what is there stays as it is. Its error has the words
// of the kubelet's event and the method EventReason.
// (kubelet kubelet.go:SyncPod)
func (m *Manager) Prepare(ctx context.Context, pod *corev1.Pod) error {
	id := IdentityOf(pod)
	if err := id.validate(); err != nil {
		return &prepareError{reasonFailedMakePodDataDirectories, fmt.Errorf("error making pod data directories: %w", err)}
	}
	if err := m.cgroups.Ensure(ctx, pod); err != nil {
		return &prepareError{reasonFailedCreatePodContainer, fmt.Errorf("unable to ensure pod container exists: %w", err)}
	}
	if err := m.makePodDirs(id); err != nil {
		return &prepareError{reasonFailedMakePodDataDirectories, fmt.Errorf("error making pod data directories: %w", err)}
	}
	if err := m.volumes.WaitForMount(ctx, pod); err != nil {
		return &prepareError{reasonFailedMount, err}
	}
	return nil
}

// Follow lets the files of volumes follow a pod whose containers run: its labels,
// annotations and resources. It waits for nothing, and may be called at every sync.
func (m *Manager) Follow(pod *corev1.Pod) { m.volumes.Follow(pod) }

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
