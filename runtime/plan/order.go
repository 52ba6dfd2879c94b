// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// TerminationOrder returns for each running sidecar the running containers
// whose end it waits for before it is stopped: all main containers, then the
// next sidecar of the spec. If that one does not run, no later one is waited
// for. Containers without an entry wait for none.
// (kubelet kuberuntime_termination_order.go:newTerminationOrdering)
func TerminationOrder(pod *corev1.Pod, running []string) map[string][]string {
	var mains []string
	for i := range pod.Spec.Containers {
		if name := pod.Spec.Containers[i].Name; slices.Contains(running, name) {
			mains = append(mains, name)
		}
	}
	order := map[string][]string{}
	next := ""
	for i := range slices.Backward(pod.Spec.InitContainers) {
		c := &pod.Spec.InitContainers[i]
		if !podspec.IsSidecar(c) {
			continue
		}
		if slices.Contains(running, c.Name) {
			waitsFor := slices.Clone(mains)
			if next != "" && slices.Contains(running, next) {
				waitsFor = append(waitsFor, next)
			}
			if len(waitsFor) > 0 {
				order[c.Name] = waitsFor
			}
		}
		next = c.Name
	}
	return order
}
