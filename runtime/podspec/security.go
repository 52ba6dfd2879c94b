// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import corev1 "k8s.io/api/core/v1"

// SeccompProfile is the seccomp profile of a container: its own before the pod's; nil if neither has one.
// (kubelet kuberuntime/helpers.go:getSeccompProfile)
func SeccompProfile(pod *corev1.Pod, container *corev1.Container) *corev1.SeccompProfile {
	if sc := container.SecurityContext; sc != nil && sc.SeccompProfile != nil {
		return sc.SeccompProfile
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		return sc.SeccompProfile
	}
	return nil
}
