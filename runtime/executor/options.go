// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	corev1 "k8s.io/api/core/v1"

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
	// Override replaces the grace period, in seconds; nil means that there is
	// none.
	Override *int64
	// Source is where Override comes from; empty means Override.
	Source v1alpha1.GraceSource
	// FromRecord makes the kill use the hook and the grace period that were
	// recorded when the container was created. The pod then only needs to say
	// whose container it is.
	FromRecord bool
	// Resume is the record of a kill that was cut off: what is left of it is
	// done.
	Resume *v1alpha1.KillRecord
}

// KillPodOptions say why and how a pod is killed.
type KillPodOptions struct {
	Trigger v1alpha1.KillTrigger
	// Message is told in the records; the events say "Stopping container <name>"
	// as the kubelet's do.
	Message     string
	RequestedBy string
	// Override replaces the grace period of every container, in seconds.
	Override *int64
	// Source is where Override comes from; empty means Override.
	Source v1alpha1.GraceSource
	// Resume are records of kills that were cut off, by whatever means; those of
	// containers that still run are gone on with.
	Resume []v1alpha1.KillRecord
}

// SyncInput is what a sync works on.
type SyncInput struct {
	Pod      *corev1.Pod
	Observed *plan.PodStatus
	Actions  plan.Actions
	// Backoff holds the entries of CrashLoopBackOff by plan.BackoffKey; the sync
	// changes it. It belongs to the worker.
	Backoff map[string]*plan.Backoff
	// BackoffPolicy is the workload's own; nil means that of the Config.
	BackoffPolicy *plan.BackoffPolicy
	// Actuated is what running containers were given since their creation, by
	// container ID; the sync adds what it changes. It belongs to the worker.
	Actuated map[string]plan.Resources
	// RequestedBy is told in the records of the kills of this sync.
	RequestedBy string
}
