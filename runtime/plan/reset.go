// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"
)

// containersToReset is the one place that decides what RestartAllContainers
// removes: every instance of every container, the other main containers first,
// then the other init containers, then the main and the init containers whose
// exit asked for it; each as in the spec.
// (kubelet kuberuntime_manager.go:getContainersToReset)
func containersToReset(pod *corev1.Pod, observed *PodStatus) []Reset {
	mainSources, mainTargets := resets(pod.Spec.Containers, observed)
	initSources, initTargets := resets(pod.Spec.InitContainers, observed)
	resets := append(mainTargets, initTargets...)
	resets = append(resets, mainSources...)
	return append(resets, initSources...)
}

// resets returns the instances whose exit asked for the restart, and the others.
func resets(containers []corev1.Container, observed *PodStatus) (sources, targets []Reset) {
	for i := range containers {
		c := &containers[i]
		for j := range observed.Containers {
			s := &observed.Containers[j]
			switch {
			case s.Name != c.Name:
			case s.State != ContainerExited:
				targets = append(targets, Reset{ID: s.ID, Name: s.Name, Kill: true})
			case asksForRestartOfAll(c, s.ExitCode):
				sources = append(sources, Reset{ID: s.ID, Name: s.Name})
			default:
				targets = append(targets, Reset{ID: s.ID, Name: s.Name})
			}
		}
	}
	return sources, targets
}
