// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// member is a container with its kind.
type member struct {
	container *corev1.Container
	kind      Kind
}

// containersOf returns the containers of a pod: init, main, ephemeral.
func containersOf(pod *corev1.Pod) []member {
	var all []member
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		kind := KindInit
		if podspec.IsSidecar(c) {
			kind = KindSidecar
		}
		all = append(all, member{c, kind})
	}
	for i := range pod.Spec.Containers {
		all = append(all, member{&pod.Spec.Containers[i], KindContainer})
	}
	for i := range pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		all = append(all, member{c, KindEphemeral})
	}
	return all
}

// find returns the container of that name, nil if the pod has none.
func find(pod *corev1.Pod, name string) *member {
	for _, m := range containersOf(pod) {
		if m.container.Name == name {
			return &m
		}
	}
	return nil
}

// kindOf returns what a container is, by the template.
func kindOf(pod *corev1.Pod, name string) Kind {
	if m := find(pod, name); m != nil {
		return m.kind
	}
	return KindRemoved
}
