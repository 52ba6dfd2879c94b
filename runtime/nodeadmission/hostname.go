// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Words of the kubelet's event about a sandbox that it cannot describe to the runtime.
// (kubelet kuberuntime_manager.go:SyncPod)
const (
	reasonHostname  = "FailedCreatePodSandBox"
	messageHostname = "Failed to create pod sandbox: "
)

// Hostnames admits pods whose host name the kernel can take.
type Hostnames struct {
	// Hostname is a pod's host name.
	Hostname func(*corev1.Pod) (string, error)
}

// Admit refuses a pod that has no such host name. On the node's network it needs none.
func (h *Hostnames) Admit(pod *corev1.Pod) *plan.Refusal {
	if pod.Spec.HostNetwork {
		return nil
	}
	if _, err := h.Hostname(pod); err != nil {
		return &plan.Refusal{Reason: reasonHostname, Message: messageHostname + err.Error()}
	}
	return nil
}
