// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Termination is the end of a workload as a caller asks for it: its deletion, its
// active deadline, its own end, an orphan's, and whoever asks the worker for it.
type Termination struct {
	// Trigger of the kills; empty is Termination.
	Trigger v1alpha1.KillTrigger `json:"trigger,omitempty"`
	// Override is a grace period in seconds that the caller asks for; nil leaves the
	// deletion's or the pod's.
	Override *int64 `json:"override,omitempty"`
	// Reason and Message become those of the pod's status, which is Failed from then
	// on; the message is written to the records, too.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Condition is added to the pod's status; nil adds none.
	Condition *corev1.PodCondition `json:"condition,omitempty"`
	// RequestedBy is written to the records; empty is the shim.
	RequestedBy string `json:"requestedBy,omitempty"`
	// EventAnnotations are those of the event about the end, for programs.
	EventAnnotations map[string]string `json:"eventAnnotations,omitempty"`
}

// Joined returns the termination after another caller has asked for the end, too: the
// first says why, the shorter override counts.
func (t Termination) Joined(later Termination) Termination {
	if later.Override != nil && (t.Override == nil || *later.Override < *t.Override) {
		t.Override = later.Override
	}
	return t
}

// Existence is what is known of a workload's object and of the workload's own end.
type Existence struct {
	// Deleted: the object is being deleted, or gone. Orphan: no object of this
	// cluster was ever known for these containers.
	Deleted, Orphan bool
	// RequestedBy asked for the deletion; empty if the deletion does not say.
	RequestedBy string
	// Asked is the end that a caller has asked for; nil without one.
	Asked *Termination
	// Status is the pod's as it was computed last; nil if there is none.
	Status *corev1.PodStatus
}

// Who asked for a kill, unless the request says so.
const (
	RequestedByShim     = "shim"
	requestedByDeadline = "shim (activeDeadlineSeconds)"
	// requestedByDiskLimit is a pod that used more of the node's disk than its limits say.
	requestedByDiskLimit = "shim (disk limits)"
	// requestedByPressure is a node that is short of memory, disk or process IDs.
	requestedByPressure = "shim (node pressure)"
	requestedByShutdown = "shim (node shutdown)"
	// requestedByDeletion is a deletion that does not say who asks for it: that of kubectl delete,
	// for example.
	requestedByDeletion = "deletion of the NodeWorkload"
)

// DecideTermination is the one place that decides whether a workload is terminated
// instead of synced, and what its end is recorded as: its object is being deleted or
// gone, a caller has asked for it, or the workload has ended by itself. A deletion says
// who asked for what is killed after it.
// (kubelet pod_workers.go:UpdatePod, kubelet.go:SyncPod)
func DecideTermination(e Existence) (t Termination, terminate bool) {
	asked := e.Asked
	if asked == nil && e.Status != nil {
		asked = endedBy(e.Status)
	}
	deleted := e.Deleted || e.Orphan
	switch {
	case asked == nil:
		t.RequestedBy = e.RequestedBy
	case deleted:
		t = Termination{Override: asked.Override, RequestedBy: e.RequestedBy}
	default:
		t = *asked
	}
	switch {
	case e.Orphan:
		t.Trigger = v1alpha1.TriggerOrphan
	case e.Deleted:
		t.RequestedBy = cmp.Or(t.RequestedBy, requestedByDeletion)
	}
	t.Trigger = cmp.Or(t.Trigger, v1alpha1.TriggerTermination)
	t.RequestedBy = cmp.Or(t.RequestedBy, RequestedByShim)
	return t, deleted || e.Asked != nil || e.Status != nil && Ended(e.Status.Phase)
}

// endedBy is the end that a status names, nil if it names none.
func endedBy(st *corev1.PodStatus) *Termination {
	if st.Reason == ReasonDeadlineExceeded {
		return deadlineTermination()
	}
	if ended := ShutDown(st); ended != nil {
		return ended
	}
	return Evicted(st)
}

// Ended is whether a workload with this phase has ended by itself: the phase never
// changes again, and nothing is started any more.
func Ended(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
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
