// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Handler says why the node does not take a pod; nil if it does. It must not block.
type Handler func(*corev1.Pod) *plan.Refusal

// Handlers are asked one after another; the first refusal counts.
// (kubelet allocation/allocation_manager.go:canAdmitPod)
type Handlers []Handler

// Admit asks the handlers.
func (all Handlers) Admit(pod *corev1.Pod) *plan.Refusal {
	for _, admit := range all {
		if refusal := admit(pod); refusal != nil {
			return refusal
		}
	}
	return nil
}
