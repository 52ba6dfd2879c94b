// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Termination is the end of a workload as a caller asks for it: its deletion, its
// active deadline, its own end, an orphan's, and whoever else may come.
type Termination struct {
	Trigger v1alpha1.KillTrigger
	// Override is a grace period in seconds that the caller asks for; nil leaves the
	// deletion's or the pod's.
	Override *int64
	// Reason and Message become those of the pod's status; empty leaves them.
	Reason, Message string
	// Condition is added to the pod's status; nil adds none.
	Condition *corev1.PodCondition
	// RequestedBy is written to the records.
	RequestedBy string
}

// TerminationFacts are why a workload ends.
type TerminationFacts struct {
	// Deleted: the object is being deleted, or gone. Orphan: no object of this
	// cluster was ever known for these containers.
	Deleted, Orphan bool
	// RequestedBy asked for the deletion; empty is the shim.
	RequestedBy string
	// DeadlineExceeded: the active deadline is over.
	DeadlineExceeded bool
}

// Who asked for a kill, unless somebody said so.
const (
	RequestedByShim     = "shim"
	requestedByDeadline = "shim (activeDeadlineSeconds)"
)

// DecideTermination is the one place that decides what the end of a workload is
// recorded as.
func DecideTermination(f TerminationFacts) Termination {
	t := Termination{Trigger: v1alpha1.TriggerTermination, RequestedBy: f.RequestedBy}
	if f.Orphan {
		t.Trigger = v1alpha1.TriggerOrphan
	}
	switch {
	case !f.Deleted && !f.Orphan && f.DeadlineExceeded:
		t.RequestedBy = requestedByDeadline
	case t.RequestedBy == "":
		t.RequestedBy = RequestedByShim
	}
	return t
}

// Grace returns the grace period of the termination of a pod, given the one that
// is in force (0 s if there is none): it may only shrink.
// (kubelet pod_workers.go:calculateEffectiveGracePeriod)
func (t Termination) Grace(pod *corev1.Pod, current Grace) Grace {
	deletion := pod.DeletionGracePeriodSeconds
	seconds, _ := TerminationGrace(current.Seconds, deletion, t.Override, pod.Spec.TerminationGracePeriodSeconds)
	grace := Grace{Seconds: seconds, Source: v1alpha1.GraceSourcePod}
	switch {
	case seconds == current.Seconds && current.Source != "":
		grace.Source = current.Source
	case t.Override != nil && max(*t.Override, 1) == seconds && (deletion == nil || *deletion > *t.Override):
		grace.Source = v1alpha1.GraceSourceOverride
	case deletion != nil:
		grace.Source = v1alpha1.GraceSourceDeletion
	}
	return grace
}

// Request returns the kill of the pod that the termination comes to.
func (t Termination) Request(pod *corev1.Pod, observed *PodStatus, grace Grace, open []KillProgress) KillRequest {
	return KillRequest{
		Pod: pod, Observed: observed, Trigger: t.Trigger, Message: t.Message, RequestedBy: t.RequestedBy,
		Override: &grace, Open: open,
	}
}
