// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// ErrGone says that the API has no object with the workload's UID any more.
var ErrGone = errors.New("the NodeWorkload is gone")

// ErrRefused says that the API server does not take a status as it is: its
// definition of the kind may be an older one.
var ErrRefused = errors.New("the status is refused")

// Identity names one instance of a workload.
type Identity struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

// key is what two instances of a workload have in common.
func (i Identity) key() types.NamespacedName {
	return types.NamespacedName{Namespace: i.Namespace, Name: i.Name}
}

// Runtime is what a worker reads from the container runtime, and the removals it
// does itself once everything is dead.
type Runtime interface {
	// PodStatus returns what the runtime has of a pod; empty, not an error, when
	// it has nothing.
	PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error)
	// RecordedPod restores the pod from labels and annotations alone; nil when
	// the runtime has nothing of it.
	RecordedPod(ctx context.Context, uid types.UID) (*corev1.Pod, error)
	// RemoveContainer and RemoveSandbox are idempotent.
	RemoveContainer(ctx context.Context, id string) error
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
}

// SyncRequest is a plan to carry out.
type SyncRequest struct {
	Pod      *corev1.Pod
	Observed *plan.PodStatus
	Actions  plan.Actions
	// Backoff is updated in place, by plan.BackoffKey.
	Backoff map[string]*plan.Backoff
	// BackoffPolicy is the workload's.
	BackoffPolicy plan.BackoffPolicy
	// Actuated is updated in place: what containers were given since their
	// creation, by ID.
	Actuated map[string]plan.Resources
	// RequestedBy is told in the records of kills.
	RequestedBy string
}

// SyncOutcome is what became of a plan.
type SyncOutcome struct {
	// Err is the first error that matters; nil also when the only trouble is a
	// back-off.
	Err error
	// BackoffUntil is when the first back-off is over; zero without one.
	BackoffUntil time.Time
	// Tried are the containers whose start was attempted, with the reason why
	// they wait, or the zero Reason when they started.
	Tried map[string]status.Reason
	// ResizeError is why resources could not be changed in place.
	ResizeError string
	// KillError is why a container or a sandbox could not be killed.
	KillError string
}

// KillRequest is the end of a whole pod.
type KillRequest struct {
	Pod      *corev1.Pod
	Observed *plan.PodStatus
	// Grace in seconds overrides every other grace period.
	Grace       int64
	Source      v1alpha1.GraceSource
	Trigger     v1alpha1.KillTrigger
	RequestedBy string
	// Resume are kills that an earlier process began.
	Resume []v1alpha1.KillRecord
}

// Executor carries plans and kills out.
type Executor interface {
	// Sync carries a plan out. A cancelled context aborts starts, pulls and
	// postStart hooks, never a kill.
	Sync(ctx context.Context, r SyncRequest) SyncOutcome
	// Kill kills all running containers and stops the sandboxes.
	Kill(ctx context.Context, r KillRequest) error
	// Shorten gives every kill of the pod that is under way at most that many
	// seconds from now.
	Shorten(uid types.UID, graceSeconds int64)
	// RemoveDead removes the older dead instances of a container that has exited.
	RemoveDead(ctx context.Context, observed *plan.PodStatus, exitedID string) error
	// Resume finishes kills of single containers that an earlier process began.
	Resume(ctx context.Context, pod *corev1.Pod, kills []v1alpha1.KillRecord) error
}

// Prober runs the probes.
type Prober interface {
	Update(pod *corev1.Pod, observed *plan.PodStatus, previous *corev1.PodStatus)
	StopLivenessAndStartup(uid types.UID)
	Remove(uid types.UID)
	Results(uid types.UID) map[string]plan.ProbeResults
	// LastFailure is why the probe of a kill's trigger failed last, such as "3x
	// (HTTP 503)"; empty if it did not.
	LastFailure(uid types.UID, containerID string, trigger v1alpha1.KillTrigger) string
}

// PodDir is a pod's place on the node.
type PodDir interface {
	// Remove deletes it: volumes, logs, cgroup. It is idempotent.
	Remove(ctx context.Context, id Identity) error
}

// Publisher writes to the API server.
type Publisher interface {
	// Publish writes the status of a workload if it differs. ErrGone when there
	// is no such object, ErrRefused when it is not taken.
	Publish(ctx context.Context, id Identity, st *v1alpha1.NodeWorkloadStatus) error
	// Release removes the finalizer. An object that is gone is no error.
	Release(ctx context.Context, id Identity) error
}

// Events tells people what happens to a workload.
type Events interface {
	Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string)
}

// Store keeps checkpoints.
type Store interface {
	Save(c *Checkpoint) error
	Load() ([]*Checkpoint, error)
	Remove(uid types.UID) error
}
