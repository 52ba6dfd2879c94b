// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe runs the probes of containers: one worker for each container and
// kind of probe. (kubelet prober)
package probe

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Execer runs a command in a container. A command that is out of time is a gRPC
// status DeadlineExceeded.
type Execer interface {
	ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error)
}

// Events records events about a pod; fieldPath names the container.
type Events interface {
	Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string)
}
// NewManager(ctx, exec Execer, events Events, onChange func(podUID types.UID), startedAt time.Time) *Manager ; Close() waits
// Update(pod *corev1.Pod, observed *plan.PodStatus, previous *corev1.PodStatus)
// StopLivenessAndStartup(podUID) ; Remove(podUID) ; Results(podUID) map[string]plan.ProbeResults
// LastFailure(podUID, containerID string) (kind, message string, failures int)
