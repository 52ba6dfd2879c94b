// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// RaiseLimits gives the pod's cgroup what it is to have more of a resource, cpu or
// memory, before its containers get more. before has the resources that the
// containers were given last. (kubelet kuberuntime_manager.go:doPodResizeAction)
func (m *Manager) RaiseLimits(ctx context.Context, before, pod *corev1.Pod, name corev1.ResourceName) error {
	return m.changeLimits(ctx, before, pod, func(limits, want cgroupLimits) (cgroupLimits, error) {
		if name == corev1.ResourceCPU {
			limits.quota, limits.shares = higher(limits.quota, want.quota), max(limits.shares, want.shares)
		}
		if name == corev1.ResourceMemory {
			limits.memory = higher(limits.memory, want.memory)
		}
		return limits, nil
	})
}

// LowerLimits takes from the pod's cgroup what it is to have less, after its
// containers got less. A memory limit below what is in use is an error: setting it
// would have the kernel kill.
func (m *Manager) LowerLimits(ctx context.Context, before, pod *corev1.Pod, name corev1.ResourceName) error {
	return m.changeLimits(ctx, before, pod, func(limits, want cgroupLimits) (cgroupLimits, error) {
		if name == corev1.ResourceCPU {
			limits.quota, limits.shares = want.quota, want.shares
		}
		if name == corev1.ResourceMemory {
			if use := memoryUse(m.cgroupPath(pod.UID)); want.memory != withoutLimit && want.memory != limits.memory && use >= want.memory {
				return limits, fmt.Errorf("cannot decrease memory limits: attempting to set pod memory limit (%d) below current usage (%d)", want.memory, use)
			}
			limits.memory = want.memory
		}
		return limits, nil
	})
}

// changeLimits applies what change makes of the limits in force.
func (m *Manager) changeLimits(ctx context.Context, before, pod *corev1.Pod, change func(limits, want cgroupLimits) (cgroupLimits, error)) error {
	path := m.cgroupPath(pod.UID)
	if path == "" || !cgroupExists(path) {
		return nil
	}
	done := m.remembered(pod.UID)
	current := podLimits(before)
	if done.limits != nil {
		current = *done.limits
	}
	limits, err := change(current, podLimits(pod))
	if err != nil {
		return err
	}
	if limits != current {
		if err := applyLimits(ctx, path, m.cgroupDriver(), limits); err != nil {
			return fmt.Errorf("change the limits of cgroup %q: %w", path, err)
		}
	}
	done.limits = &limits
	return nil
}

// higher returns the higher of two limits; none is the highest.
func higher(a, b int64) int64 {
	if a == withoutLimit || b == withoutLimit {
		return withoutLimit
	}
	return max(a, b)
}
