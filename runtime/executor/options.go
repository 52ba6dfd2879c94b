// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// KillOptions say why and how a container is killed.
type KillOptions struct {
	Trigger v1alpha1.KillTrigger
	// Message is the reason in the kubelet's words; empty means "Stopping
	// container <name>".
	Message string
	// Story is told in the record instead of Message, if set.
	Story string
	// RequestedBy is the part that asked for the kill.
	RequestedBy string
	// Override replaces the grace period; nil without one.
	Override *plan.Grace
	// FromRecord makes the kill use the hook and the grace period that were
	// recorded when the container was created. The pod then only needs to say
	// whose container it is.
	FromRecord bool
	// Resume is a kill that was cut off: what is left of it is done.
	Resume *plan.KillProgress
}
