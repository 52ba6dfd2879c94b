// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Running returns what the runtime would report if everything ran as a pod's
// template says: one sandbox, init containers that succeeded, and the others
// running.
func Running(pod *corev1.Pod) *plan.PodStatus {
	network := plan.NetworkPod
	if pod.Spec.HostNetwork {
		network = plan.NetworkNode
	}
	const sandbox = "assumed"
	observed := &plan.PodStatus{
		ID: string(pod.UID), Name: pod.Name, Namespace: pod.Namespace,
		Sandboxes: []plan.SandboxStatus{{
			ID: sandbox, State: plan.SandboxReady, NetworkNamespace: network, Hash: plan.HashPod(pod),
		}},
	}
	for _, m := range containersOf(pod) {
		s := plan.ContainerStatus{
			ID: "assumed-" + m.container.Name, Name: m.container.Name, SandboxID: sandbox,
			State: plan.ContainerRunning, Hash: plan.HashContainer(m.container), Recorded: recordOf(pod, m),
		}
		if m.kind == KindInit {
			s.State, s.Reason = plan.ContainerExited, "Completed"
		}
		observed.Containers = append(observed.Containers, s)
		observed.ActiveContainerIDs = append(observed.ActiveContainerIDs, s.ID)
	}
	return observed
}

// recordOf is what a shim records with a container.
func recordOf(pod *corev1.Pod, m member) plan.Recorded {
	resources := plan.ResourcesOf(&m.container.Resources)
	record := plan.Recorded{
		Resources:                     &resources,
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
		DeletionGracePeriodSeconds:    pod.DeletionGracePeriodSeconds,
		Ports:                         m.container.Ports,
		Place:                         plan.PlaceOf(pod, m.container.Name),
		RestartedAt:                   pod.Annotations[v1alpha1.AnnotationRestartedAt],
	}
	if m.container.Lifecycle != nil {
		record.PreStop = m.container.Lifecycle.PreStop
	}
	return record
}
