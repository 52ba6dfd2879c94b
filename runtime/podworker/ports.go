// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
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
	// Images returns what the runtime calls the images of these names of templates;
	// one that it could not be asked for is left out.
	Images(ctx context.Context, names []string) plan.Images
	// ImageRef returns what the runtime calls an image, also by what it calls it; empty
	// if it does not have it.
	ImageRef(ctx context.Context, image string) (string, error)
	// RecordedPod restores the pod from labels and annotations alone; nil when
	// the runtime has nothing of it.
	RecordedPod(ctx context.Context, uid types.UID) (*corev1.Pod, error)
	// RemoveContainer and RemoveSandbox are idempotent.
	RemoveContainer(ctx context.Context, id string) error
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
}

// Executor carries plans and kills out.
type Executor interface {
	// SyncPod carries a plan out. A cancelled context aborts starts, pulls and
	// postStart hooks, never a kill.
	SyncPod(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome
	// PrepareImage sees to it that an image that a container needs is there before what
	// runs is killed for it; begins is called when a pull begins. Its error is that of ctx.
	PrepareImage(ctx context.Context, pod *corev1.Pod, container string, image plan.ImageKey, begins func()) (plan.Preparation, error)
	// ImageUsable is whether a pod may use an image that the runtime has as ref.
	ImageUsable(ctx context.Context, pod *corev1.Pod, image, ref string) bool
	// KillPod kills all running containers and stops the sandboxes.
	KillPod(ctx context.Context, r plan.KillRequest) ([]plan.Result, error)
	// Shorten gives every kill of the pod that is under way at most that many
	// seconds from now.
	Shorten(uid types.UID, graceSeconds int64)
	// Outdate has no kill of the pod that is under way tried again: another template is wanted.
	Outdate(uid types.UID)
	// NoteExits ends the hooks and waits of kills of the pod whose containers have exited.
	NoteExits(ctx context.Context, uid types.UID)
	// Starting has the IDs of the pod's containers whose postStart hook has not ended.
	Starting(uid types.UID) map[string]bool
	// RemoveDead removes the older dead instances of a container that has exited.
	RemoveDead(ctx context.Context, observed *plan.PodStatus, exitedID string) error
	// Resume finishes kills of single containers that an earlier process began.
	Resume(ctx context.Context, pod *corev1.Pod, kills []plan.KillProgress) error
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
	// Prepare makes it as the pod's spec says, and removes volumes that the spec no
	// longer has. It is idempotent.
	Prepare(ctx context.Context, pod *corev1.Pod) error
	// Follow lets the files of volumes follow what changes without a restart. It waits
	// for nothing.
	Follow(pod *corev1.Pod)
	// Conditions are what people should know about it, beside what was observed of
	// the pod.
	Conditions(ctx context.Context, pod *corev1.Pod, observed *plan.PodStatus) []corev1.PodCondition
	// OutsideCgroup says that the pod's cgroup is gone and that all its running
	// containers are proved to run in another one. Any doubt is false.
	OutsideCgroup(ctx context.Context, pod *corev1.Pod, observed *plan.PodStatus) bool
	// OOMKills is how many processes of the pod the kernel has killed for memory;
	// false where that is not known.
	OOMKills(uid types.UID) (int64, bool)
	// Release gives back what only running containers need: volumes with the
	// contents of emptyDirs, and the cgroup. Logs and termination messages stay.
	// It is idempotent.
	Release(ctx context.Context, id Identity) error
	// Remove deletes it: volumes, logs, cgroup. It is idempotent.
	Remove(ctx context.Context, id Identity) error
	// KillLeftovers kills all processes in the pod's cgroup, of which the caller knows that the
	// runtime has none, and returns them. An error says that some may still be there.
	KillLeftovers(ctx context.Context, uid types.UID) ([]Leftover, error)
}

// Leftover is a process in the cgroup of a pod that has ended.
type Leftover struct {
	PID  int
	Name string
	// ContainerID is that of the container in whose cgroup it was, "" if it was in the pod's own.
	ContainerID string
}

// Objects are those that containers get beside their template.
type Objects interface {
	// Missing returns what a pod refers to and could not be started without, and has
	// tokens fetched that are not there. It does not wait; whoever knows more wakes the
	// worker.
	Missing(ctx context.Context, pod *corev1.Pod) []plan.Missing
}

// Publisher writes to the API server.
type Publisher interface {
	// Publish writes the status of a workload if it differs. ErrGone when there
	// is no such object, ErrRefused when it is not taken.
	Publish(ctx context.Context, id Identity, st *v1alpha1.NodeWorkloadStatus) error
	// Live reads the object that has a workload's name where that workload is from, past any
	// cache; it may be another instance. ErrGone when there is none.
	Live(ctx context.Context, of Identity) (*template.Workload, error)
	// Release removes the finalizer. An object that is gone is no error, nor is one
	// that is not being deleted: it keeps its finalizer.
	Release(ctx context.Context, id Identity) error
}

// Events reports to people what happens to a workload.
type Events interface {
	Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string)
}

// AnnotatedEvents are Events that may have annotations.
type AnnotatedEvents interface {
	// AnnotatedEvent reports an event about the whole workload, with annotations for programs.
	AnnotatedEvent(pod *corev1.Pod, annotations map[string]string, eventtype, reason, message string)
}

// Store keeps checkpoints.
type Store interface {
	Save(c *Checkpoint) error
	Load() ([]*Checkpoint, error)
	Remove(uid types.UID) error
}
