// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// SyncRequest is a plan to carry out.
type SyncRequest struct {
	Pod      *corev1.Pod
	Observed *PodStatus
	Actions  Actions
	// Backoff holds the entries of CrashLoopBackOff by BackoffKey; the sync
	// changes it.
	Backoff map[string]*Backoff
	// BackoffPolicy is the workload's; the zero value is the kubelet's.
	BackoffPolicy BackoffPolicy
	// Actuated is what running containers were given since their creation, by
	// container ID; the sync adds what it changes.
	Actuated map[string]Resources
	// RequestedBy is written to the records of the kills of this sync, and ChangedBy, where
	// it is known, to those that a change of the template asks for.
	RequestedBy, ChangedBy string
	// Forgiven are instances whose end counts for no back-off.
	Forgiven []string
	// Beside: other syncs of the pod are carried out meanwhile (Actions.Apart), and may replace
	// containers that Observed has, or change what they were given.
	Beside bool
}

// Asks names who asked for a kill of this sync.
func (r *SyncRequest) Asks(t v1alpha1.KillTrigger) string {
	changed := deliberate(t) || t == v1alpha1.TriggerContainerRemoved ||
		t == v1alpha1.TriggerSandboxChanged && r.Actions.Redefined
	if changed && r.ChangedBy != "" {
		return r.ChangedBy
	}
	return r.RequestedBy
}

// SyncOutcome is the result of a sync.
type SyncOutcome struct {
	// Results of the steps, in their order.
	Results []Result
	// SyncError is an error that belongs to no step.
	SyncError error
	// Err joins all errors; nil also when back-offs are all that is wrong.
	Err error
	// BackoffUntil is the earliest end of a back-off; zero without one.
	BackoffUntil time.Time
	// Tried are the containers whose start was attempted, with the reason why
	// they wait, or the zero Reason when they started.
	Tried map[string]Reason
	// ResizeError is why resources could not be changed in place.
	ResizeError string
	// KillError is why a container or a sandbox could not be killed.
	KillError string
}

// Result is the result of one step.
type Result struct {
	Action Action
	// Target is the container's name; for sandboxes the pod.
	Target string
	// Err is brief, as a waiting reason; nil on success.
	Err error
	// Message is what a person reads about Err.
	Message string
	// BackoffUntil is when a container in CrashLoopBackOff is started again.
	BackoffUntil time.Time
}

// Action is a step that has a result.
type Action string

// The actions, in the kubelet's words. (kubelet container/sync_result.go)
const (
	ActionStartContainer   Action = "StartContainer"
	ActionKillContainer    Action = "KillContainer"
	ActionRemoveContainer  Action = "RemoveContainer"
	ActionCreatePodSandbox Action = "CreatePodSandbox"
	ActionKillPodSandbox   Action = "KillPodSandbox"
	ActionResizePodInPlace Action = "ResizePodInPlace"
)

// Reason is why a container, or a pod, is in its state.
type Reason struct {
	// Reason is short and CamelCase, such as CrashLoopBackOff or ErrImagePull.
	Reason string
	// Message says more.
	Message string
}

// KillRequest asks for the end of a whole pod: every container that runs, then
// every sandbox.
type KillRequest struct {
	Pod      *corev1.Pod
	Observed *PodStatus
	Trigger  v1alpha1.KillTrigger
	// Message is written to the records; the events Killing say "Stopping container
	// <name>" as the kubelet's do.
	Message     string
	RequestedBy string
	// Override replaces the grace period of every container; nil without one.
	Override *Grace
	// Open are kills that were cut off; those of containers that still run are
	// continued.
	Open []KillProgress
}

// KillProgress is a kill under way, or one that has ended: its record, and what
// only the node needs to continue it.
type KillProgress struct {
	Record v1alpha1.KillRecord
	Note   KillNote
}

// KillNote is what the checkpoint keeps beside the record of a kill under way.
type KillNote struct {
	// BootID is the boot that Ends counts from; empty if it is not known.
	BootID string `json:"bootID,omitempty"`
	// Ends is when the phase that the record is in has to end, as the time since
	// boot.
	Ends time.Duration `json:"ends,omitempty"`
	// Fresh is how many seconds the phase had when it began, as long as the container
	// may not know of it yet: a process that ends before its request has reached the
	// runtime must not cost the container what it had. 0 means that it knows.
	Fresh int64 `json:"fresh,omitempty"`
	// Ran: the container was seen to run when the kill began, so it had not stopped
	// before, whatever the wall clock says.
	Ran bool `json:"ran,omitempty"`
	// Panics is how often the kill has panicked.
	Panics int `json:"panics,omitempty"`
}
