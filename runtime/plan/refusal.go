// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Refusal is why a node does not admit a pod, in the kubelet's words. (kubelet
// lifecycle/interfaces.go:PodAdmitResult)
type Refusal struct {
	// Reason is one word, as that of a condition.
	Reason string
	// Message says it to people.
	Message string
}
