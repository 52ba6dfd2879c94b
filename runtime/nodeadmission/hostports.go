// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	"cmp"
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Words of the kubelet, which asks the scheduler's plugin. (kubelet lifecycle/predicate.go,
// scheduler nodeports/node_ports.go)
const (
	reasonHostPorts  = "NodePorts"
	messageHostPorts = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
)

// everyAddress is the host IP of a port that has none.
const everyAddress = "0.0.0.0"

// HostPorts admits pods whose host ports no other has.
type HostPorts struct {
	// Others are the pods that run or may be started beside this one.
	Others func(pod *corev1.Pod) []*corev1.Pod
}

// Admit refuses a pod that asks for a host port of another. (scheduler
// nodeports/node_ports.go:Fits)
func (h *HostPorts) Admit(pod *corev1.Pod) *plan.Refusal {
	if !hasHostPort(pod) {
		return nil
	}
	for _, other := range h.Others(pod) {
		if samePort(pod, other) {
			return &plan.Refusal{Reason: reasonHostPorts, Message: messageHostPorts}
		}
	}
	return nil
}

func hasHostPort(pod *corev1.Pod) bool {
	for range hostPorts(pod) {
		return true
	}
	return false
}

func samePort(a, b *corev1.Pod) bool {
	for p := range hostPorts(a) {
		for q := range hostPorts(b) {
			if conflict(p, q) {
				return true
			}
		}
	}
	return false
}

// conflict is whether two host ports cannot be had at once. (scheduler
// framework:HostPortInfo.CheckConflict)
func conflict(p, q corev1.ContainerPort) bool {
	if p.HostPort != q.HostPort || cmp.Or(p.Protocol, corev1.ProtocolTCP) != cmp.Or(q.Protocol, corev1.ProtocolTCP) {
		return false
	}
	a, b := cmp.Or(p.HostIP, everyAddress), cmp.Or(q.HostIP, everyAddress)
	return a == b || a == everyAddress || b == everyAddress
}

// hostPorts yields those of the containers that run as long as the pod. (scheduler
// util:GetHostPorts)
func hostPorts(pod *corev1.Pod) iter.Seq[corev1.ContainerPort] {
	return func(yield func(corev1.ContainerPort) bool) {
		for c := range longRunning(pod) {
			for _, p := range c.Ports {
				if p.HostPort > 0 && !yield(p) {
					return
				}
			}
		}
	}
}

func longRunning(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; podspec.IsSidecar(c) && !yield(c) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
	}
}
