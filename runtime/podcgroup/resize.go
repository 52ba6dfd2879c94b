// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// RaiseLimits gives the pod's cgroup what it is to have more of a resource, cpu or
// memory, before its containers get more. before has the resources that the
// containers were given last. (kubelet kuberuntime_manager.go:doPodResizeAction)
func (m *Manager) RaiseLimits(ctx context.Context, before, pod *corev1.Pod, name corev1.ResourceName) error {
	return m.changeLimits(ctx, before, pod, func(now, want limits) (limits, error) {
		if name == corev1.ResourceCPU {
			now.quota, now.shares = higher(now.quota, want.quota), max(now.shares, want.shares)
		}
		if name == corev1.ResourceMemory {
			now.memory = higher(now.memory, want.memory)
		}
		return now, nil
	})
}

// LowerLimits takes from the pod's cgroup what it is to have less, after its
// containers got less. A memory limit below what is in use is an error: setting it
// would have the kernel kill.
func (m *Manager) LowerLimits(ctx context.Context, before, pod *corev1.Pod, name corev1.ResourceName) error {
	return m.changeLimits(ctx, before, pod, func(now, want limits) (limits, error) {
		if name == corev1.ResourceCPU {
			now.quota, now.shares = want.quota, want.shares
		}
		if name == corev1.ResourceMemory {
			if use := memoryUse(m.Path(pod.UID)); want.memory != withoutLimit && want.memory != now.memory && use >= want.memory {
				return now, fmt.Errorf("cannot decrease memory limits: attempting to set pod memory limit (%d) below current usage (%d)", want.memory, use)
			}
			now.memory = want.memory
		}
		return now, nil
	})
}

// changeLimits applies what change makes of the limits in force.
func (m *Manager) changeLimits(ctx context.Context, before, pod *corev1.Pod, change func(now, want limits) (limits, error)) error {
	path := m.Path(pod.UID)
	if path == "" || !cgroupExists(path) {
		return nil
	}
	defer m.alone(pod.UID)()
	now, ok := m.last(pod.UID)
	if !ok {
		now = m.limitsOf(before)
	}
	next, err := change(now, m.limitsOf(pod))
	if err != nil {
		return err
	}
	if next != now {
		if err := applyLimits(ctx, path, m.currentDriver(), next); err != nil {
			return fmt.Errorf("change the limits of cgroup %q: %w", path, err)
		}
	}
	m.remember(pod.UID, next)
	return nil
}

// higher returns the higher of two limits; none is the highest.
func higher(a, b int64) int64 {
	if a == withoutLimit || b == withoutLimit {
		return withoutLimit
	}
	return max(a, b)
}
