// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/quota"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Share is what the manager remembers of a NodeWorkload: about a kilobyte, whatever its
// template and its status are. It is not changed once it is made, so that all may read it.
// Whoever needs the whole object reads it from the API server.
type Share struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	Generation      int64
	Created         time.Time
	// Deleted is when its deletion was asked for; zero: it was not.
	Deleted time.Time
	Node    string
	// Controller is the object that controls it, zero where none does.
	Controller Controller
	Labels     map[string]string
	Finalizers []string
	// RequestedBy and ChangedBy are the annotations of these names; Annotated reports
	// whether it has any annotation.
	RequestedBy, ChangedBy string
	Annotated              bool

	// SpecHash identifies the template of its spec.
	SpecHash string
	// Demands are those of that template, never nil.
	Demands *Demands
	// Earlier are what the templates before it refer to, of which something may run, one that ran whole last.
	Earlier []*References
	// Amount is what it requests of a node, and Usage what it uses of quotas: of each, the largest of what
	// its template says and those before of which something may run.
	Amount         Amount
	Usage          *quota.Usage
	RestartBackoff *v1alpha1.RestartBackoff
	// DeletionGrace is the grace period of its spec, in seconds; nil where it is not set.
	DeletionGrace *int64

	// What its shim reported last; ObservedGeneration is -1 before it saw the object.
	ObservedGeneration int64
	TemplateHash       string
	Phase              corev1.PodPhase
	// ReadySince is when it became ready, by the manager's clock as far as the manager saw
	// it; zero: it is not. readyAt is the same by the node's clock, which may be years off.
	// readyWordAt is when the manager saw that it was ready, while it has only the node's word
	// for when it became so; else zero.
	ReadySince, readyAt, readyWordAt time.Time
	// LateSince is since when it waits, or is not ready, by the same clocks; zero: it does
	// not, or its shim did not say.
	LateSince, lateAt, lateWordAt time.Time
	// Killed: it has kill records.
	Killed bool
	// Evicted: its node has ended it, for its disk usage, because it was short of something or
	// because it shut down, and it is made again. ShutDown: it was for the shutdown, and Runs:
	// its containers have not all ended.
	Evicted, ShutDown, Runs bool
	// Waiting is why what its spec says does not run yet.
	Waiting Waiting
	// Complaint is why it is not ready, and Failure how it ended if it failed.
	Complaint, Failure string

	// Requests are its KillRequests, nil without any.
	Requests *Requests

	// Shim is the condition ShimResponding, nil where there is none, and conditions how
	// many conditions there are, of which it is the one at shimAt.
	Shim *metav1.Condition
	// Reserved is what the condition Reserved says, the one at reservedAt; nil where there is
	// none. It is shared by all Shares that say the same.
	Reserved                       *Said
	conditions, shimAt, reservedAt int16
}

// Controller is the object that controls a NodeWorkload.
type Controller struct {
	Kind, Name string
	UID        types.UID
	// IsWorkload: it is a ManagedWorkload.
	IsWorkload bool
}

// Waiting is why something is waited for, in a condition's words; zero: nothing is.
type Waiting struct{ Reason, Message string }

// maxText bounds the texts of a Share, which become parts of messages.
const maxText = 256

// ShareOf is what the manager remembers of a NodeWorkload. before, which may be nil, is
// what it remembered so far: a template is not hashed again while its generation stays.
func ShareOf(nw *v1alpha1.NodeWorkload, before *Share) *Share {
	s := &Share{
		Namespace: intern(nw.Namespace), Name: nw.Name, UID: nw.UID, ResourceVersion: nw.ResourceVersion, Generation: nw.Generation,
		Created: nw.CreationTimestamp.Time, Node: intern(nw.Spec.NodeName), Controller: controllerOf(nw), Labels: labelsOf(nw, before),
		Finalizers: finalizersOf(nw), Annotated: len(nw.Annotations) > 0,
		RequestedBy: intern(nw.Annotations[v1alpha1.AnnotationRequestedBy]), ChangedBy: intern(nw.Annotations[v1alpha1.AnnotationChangedBy]),

		RestartBackoff: nw.Spec.RestartBackoff.DeepCopy(), DeletionGrace: copied(nw.Spec.DeletionGracePeriodSeconds),

		ObservedGeneration: nw.Status.ObservedGeneration, TemplateHash: intern(nw.Status.TemplateHash),
		Phase: corev1.PodPhase(intern(string(nw.Status.Phase))), Killed: len(nw.Status.Kills) > 0,
		Requests: requestsOf(nw),
	}
	s.takeTemplate(nw, before)
	s.takeEarlier(nw, before)
	if nw.DeletionTimestamp != nil {
		s.Deleted = nw.DeletionTimestamp.Time
	}
	s.takeConditions(nw.Status.Conditions)
	s.takeTimes(nw, before)
	if !s.Ready() {
		s.Complaint = intern(writes.Limit(complaint(&nw.Status), maxText))
	}
	if s.Phase == corev1.PodFailed {
		s.Failure = intern(writes.Limit(failure(&nw.Status), maxText))
		s.ShutDown = nw.Status.Reason == v1alpha1.ReasonTerminated
		s.Evicted = nw.Status.Reason == v1alpha1.ReasonEvicted || s.ShutDown
		s.Runs = runs(&nw.Status)
	}
	return s
}

func (s *Share) takeConditions(conditions []metav1.Condition) {
	s.conditions = int16(len(conditions))
	if waits := meta.FindStatusCondition(conditions, v1alpha1.ConditionUpdateWaiting); waits != nil && waits.Status == metav1.ConditionTrue {
		s.Waiting = Waiting{intern(waits.Reason), intern(writes.Limit(waits.Message, maxText))}
	}
	if s.Waiting == (Waiting{}) {
		for _, kind := range []string{v1alpha1.ConditionTemplateAccepted, v1alpha1.ConditionRuntimeUsable} {
			if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
				s.Waiting = Waiting{intern(c.Reason), intern(writes.Limit(c.Message, maxText))}
			}
		}
	}
	s.Reserved, s.reservedAt = saidOf(conditions, v1alpha1.ConditionReserved)
	s.shimAt = indexOf(conditions, v1alpha1.ConditionShimResponding)
	if s.shimAt >= 0 {
		c := conditions[s.shimAt]
		c.Type, c.Reason, c.Message, c.Status = v1alpha1.ConditionShimResponding, intern(c.Reason), intern(c.Message), metav1.ConditionStatus(intern(string(c.Status)))
		s.Shim = &c
	}
}

// takeTimes notes since when it is ready, or late.
func (s *Share) takeTimes(nw *v1alpha1.NodeWorkload, before *Share) {
	conditions := nw.Status.Conditions
	if before == nil || before.UID != s.UID {
		before = &Share{}
	}
	s.ReadySince, s.readyAt, s.readyWordAt = time.Time{}, time.Time{}, time.Time{}
	s.LateSince, s.lateAt, s.lateWordAt = time.Time{}, time.Time{}, time.Time{}
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Status == metav1.ConditionTrue {
		s.readyAt = ready.LastTransitionTime.Time
		s.ReadySince, s.readyWordAt = before.began(s.readyAt, before.ReadySince, before.readyAt, before.readyWordAt)
	}
	if late := lateBy(conditions); late != nil && !late.LastTransitionTime.IsZero() {
		s.lateAt = late.LastTransitionTime.Time
		s.LateSince, s.lateWordAt = before.began(s.lateAt, before.LateSince, before.lateAt, before.lateWordAt)
	}
}

// lateBy is the condition that keeps a NodeWorkload from running what it should, or from
// being ready; nil if none does.
func lateBy(conditions []metav1.Condition) *metav1.Condition {
	if waits := meta.FindStatusCondition(conditions, v1alpha1.ConditionUpdateWaiting); waits != nil && waits.Status == metav1.ConditionTrue {
		return waits
	}
	for _, kind := range []string{v1alpha1.ConditionRuntimeUsable, v1alpha1.ConditionTemplateAccepted, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return c
		}
	}
	return nil
}

// began is when something began that by the node's clock began at a time. since, sinceAt and
// wordAt are what s had of it, zero if it had not begun. The second time is when the manager saw
// it, where the node's word is all that there is: s is empty where the manager never saw the object.
func (s *Share) began(at, since, sinceAt, wordAt time.Time) (began, word time.Time) {
	now := time.Now()
	switch {
	case s.UID == "":
		return claimed(at, now), now
	case !since.IsZero() && sinceAt.Equal(at):
		return since, wordAt
	}
	return now, time.Time{}
}

// Key is its namespace and name.
func (s *Share) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// Workload is the UID of the ManagedWorkload that controls it, "" if none does.
func (s *Share) Workload() types.UID {
	if !s.Controller.IsWorkload {
		return ""
	}
	return s.Controller.UID
}

// Deleting reports whether its deletion was asked for.
func (s *Share) Deleting() bool { return !s.Deleted.IsZero() }

// Ready reports whether its shim reported it ready.
func (s *Share) Ready() bool { return !s.ReadySince.IsZero() }

// Observed reports whether a shim ever took it.
func (s *Share) Observed() bool { return s.ObservedGeneration >= 0 }

// Current reports whether what the shim reports is about the spec of now, and that runs.
func (s *Share) Current() bool {
	return s.ObservedGeneration == s.Generation && s.TemplateHash == s.SpecHash
}

// Revision is the hash of the template that it was made from, its label.
func (s *Share) Revision() string { return s.Labels[v1alpha1.LabelRevision] }

// Edit begins a change of the object, which fails if it has changed since.
func (s *Share) Edit() *writes.Edit { return writes.NewEdit(s.Key(), s.UID, s.ResourceVersion) }

// sameReport reports whether two Shares of one object differ in nothing that a decision or
// a status depends on, but in the resourceVersion.
func (s *Share) sameReport(o *Share) bool {
	return s.sameSpec(o) && s.ObservedGeneration == o.ObservedGeneration && s.TemplateHash == o.TemplateHash && s.Phase == o.Phase &&
		s.ReadySince.Equal(o.ReadySince) && s.LateSince.Equal(o.LateSince) && s.Killed == o.Killed && s.Evicted == o.Evicted && s.ShutDown == o.ShutDown && s.Runs == o.Runs && s.Waiting == o.Waiting && s.Complaint == o.Complaint && s.Failure == o.Failure &&
		s.sameRequests(o) && s.sameShim(o)
}

func (s *Share) sameShim(o *Share) bool {
	if s.Shim == nil || o.Shim == nil {
		return s.Shim == o.Shim
	}
	return *s.Shim == *o.Shim
}

func (s *Share) sameController(o *Share) bool { return s.Controller == o.Controller }

// sameSpec reports whether only the status may differ.
func (s *Share) sameSpec(o *Share) bool {
	return s.UID == o.UID && s.Generation == o.Generation && s.SpecHash == o.SpecHash && s.Deleted.Equal(o.Deleted) && s.sameController(o) &&
		sameLabels(s.Labels, o.Labels) && slices.Equal(s.Finalizers, o.Finalizers) && s.RequestedBy == o.RequestedBy && s.ChangedBy == o.ChangedBy
}

// GetObjectMeta implements metav1.ObjectMetaAccessor, by which reflectors name objects.
func (s *Share) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}
}

// GetObjectKind implements runtime.Object.
func (s *Share) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. A Share is never changed, so it is its own copy.
func (s *Share) DeepCopyObject() runtime.Object { return s }

func controllerOf(nw *v1alpha1.NodeWorkload) Controller {
	ref := metav1.GetControllerOfNoCopy(nw)
	if ref == nil {
		return Controller{}
	}
	return Controller{Kind: intern(ref.Kind), Name: intern(ref.Name), UID: types.UID(intern(string(ref.UID))), IsWorkload: writes.WorkloadReference(nw) != nil}
}

// labelsOf are the labels, which are the same map while they are the same.
func labelsOf(nw *v1alpha1.NodeWorkload, before *Share) map[string]string {
	if before != nil && sameLabels(before.Labels, nw.Labels) {
		return before.Labels
	}
	labels := make(map[string]string, len(nw.Labels))
	for key, value := range nw.Labels {
		labels[intern(key)] = intern(value)
	}
	return labels
}

func sameLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return true
}

// onlyOurs are the finalizers of nearly all NodeWorkloads.
var onlyOurs = []string{v1alpha1.Finalizer}

func finalizersOf(nw *v1alpha1.NodeWorkload) []string {
	if slices.Equal(nw.Finalizers, onlyOurs) {
		return onlyOurs
	}
	return slices.Clone(nw.Finalizers)
}

func copied(n *int64) *int64 {
	if n == nil {
		return nil
	}
	return new(*n)
}
