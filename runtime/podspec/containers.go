// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// InitAndMain yields the init containers, then the main containers.
func InitAndMain(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// Container returns the main, init or ephemeral container of that name; nil if
// the pod has none. (kubelet container/helpers.go:GetContainerSpec)
func Container(pod *corev1.Pod, name string) *corev1.Container {
	c, _ := find(pod, name)
	return c
}

// FieldPath returns where in the spec a container stands, for the object of an
// event. (kubelet container/ref.go:GenerateContainerRef)
func FieldPath(pod *corev1.Pod, name string) string {
	c, list := find(pod, name)
	if c == nil {
		return "implicitly required container " + name
	}
	return "spec." + list + "{" + name + "}"
}

// find returns a container and the field of the spec that holds it.
func find(pod *corev1.Pod, name string) (c *corev1.Container, list string) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i], "containers"
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i], "initContainers"
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if e := &pod.Spec.EphemeralContainers[i]; e.Name == name {
			return (*corev1.Container)(&e.EphemeralContainerCommon), "ephemeralContainers"
		}
	}
	return nil, ""
}

// IsSidecar returns whether an init container keeps running beside the main
// containers. (kubelet api/v1/pod:IsRestartableInitContainer)
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// HasPrivileged returns whether an init or main container is privileged.
// (kubelet container/helpers.go:HasPrivilegedContainer)
func HasPrivileged(pod *corev1.Pod) bool {
	for c := range InitAndMain(pod) {
		if IsPrivileged(c) {
			return true
		}
	}
	return false
}

// IsPrivileged returns whether a container is privileged.
func IsPrivileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// Format names a pod as the kubelet does in messages. (kubelet
// util/format/pod.go:Pod)
func Format(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// HandlerName names the handler of a hook as the API does; exec if it has none.
func HandlerName(hook *corev1.LifecycleHandler) string {
	switch {
	case hook.HTTPGet != nil:
		return "httpGet"
	case hook.Sleep != nil:
		return "sleep"
	default:
		return "exec"
	}
}
