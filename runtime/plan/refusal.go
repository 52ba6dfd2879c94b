// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// ReasonHostPorts is the reason of a refusal for host ports that another pod has. (scheduler
// nodeports/node_ports.go:Name)
const ReasonHostPorts = "NodePorts"

// Refusal is why a node does not admit a pod, in the kubelet's words. (kubelet
// lifecycle/interfaces.go:PodAdmitResult)
type Refusal struct {
	// Reason is one word, as that of a condition.
	Reason string
	// Message says it to people.
	Message string
}
