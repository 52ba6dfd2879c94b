// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// desired is what a worker is to make true: the latest news win.
type desired struct {
	// pod is the last accepted one, with its deletion; nil if none was accepted.
	pod *corev1.Pod
	// shown is the pod to name in the status and events, accepted or not.
	shown *corev1.Pod
	// previous is the pod before, as long as something of it may run; nil if that is not
	// known.
	previous *corev1.Pod
	// hash identifies the template of pod.
	hash string
	// restartBackoff is the workload's own policy, nil if it has none.
	restartBackoff *v1alpha1.RestartBackoff
	// requests are the KillRequests of the latest object. They are not changed.
	requests []v1alpha1.NodeRequest
	// generation is that of the latest object, accepted or not, and spec identifies
	// its spec: after a restore of the API's storage another one can have the same
	// generation.
	generation int64
	spec       [sha256.Size]byte
	// refused says why the latest template is not accepted, and exceeds that it is above
	// what the node allows.
	refused, exceeds string
	// held says why nothing of pod is started: it was accepted when the node allowed more.
	held string
	// next is the latest template while the node has not admitted it and something of the one
	// before ran, nil if there is none.
	next *candidate
	// denied is why the node does not admit next, or pod if nothing of it ever ran.
	denied *plan.Refusal
	// ran: the runtime has or had something of the workload. admitted is the pod that the node
	// has admitted since the process started.
	ran      bool
	admitted *corev1.Pod
	// deleted: the object is being deleted or gone.
	deleted bool
	// gone: the API does not have it any more. orphan: this process
	// knows it from the runtime only.
	gone, orphan bool
	// seen: the API had the object while this process ran.
	seen        bool
	requestedBy string
	// changedBy changed the definition last, "" if that is not known.
	changedBy string
	// asked is the end that was requested by other than the API; nil without one.
	asked *plan.Termination
	// version counts the changes, and taken is the last one a step has seen.
	version, taken int
}

// reported is the pod that a status is about.
func (d desired) reported() *corev1.Pod {
	if d.pod != nil {
		return d.pod
	}
	return d.shown
}

// idle says that there is nothing to do yet.
func (d desired) idle() bool { return d.shown == nil && !d.deleted }

// ends says that the end was requested: nothing is started any more.
func (d desired) ends() bool { return d.deleted || d.asked != nil }

// updated takes the latest version of the object. A template that is refused leaves
// what runs as it is; so does one of which exceeds says that it is above what the node
// allows, and one that the node has not admitted.
func (d desired) updated(nw *template.Workload, exceeds func(*corev1.Pod) string) desired {
	spec := specHash(nw)
	known := d.seen && d.generation == nw.Generation && d.spec == spec && d.deleted == (nw.DeletionTimestamp != nil)
	d.seen = true
	if d.gone || d.orphan || (d.deleted && nw.DeletionTimestamp == nil) {
		// A deletion is never taken back: this is an old version of the object.
		return d
	}
	// Who asks matters with the deletion, not before.
	d.requestedBy = nw.Annotations[v1alpha1.AnnotationRequestedBy]
	d.changedBy = nw.Annotations[v1alpha1.AnnotationChangedBy]
	if known {
		return d
	}
	d.generation, d.spec = nw.Generation, spec
	d.restartBackoff = nw.Spec.RestartBackoff.DeepCopy()
	d.requests = nw.Spec.DeepCopy().Requests
	latest := template.Pod(nw)
	d.shown = latest
	d.refused, d.exceeds = refusal(nw.Template), exceeds(latest)
	if d.refused == "" && d.exceeds == "" {
		t := nw.Template.DeepCopy()
		template.SetDefaults(t)
		d = d.offered(candidate{latest, template.Hash(t)})
	} else {
		d.next, d.denied = nil, nil
	}
	if nw.DeletionTimestamp != nil {
		d.deleted = true
		d.pod = withDeletion(d.pod, latest.DeletionTimestamp, latest.DeletionGracePeriodSeconds)
	}
	d.version++
	return d
}

// specHash identifies a spec and its template. One that cannot be encoded is like no other.
func specHash(nw *template.Workload) [sha256.Size]byte {
	spec := nw.Spec
	spec.Template = corev1.PodTemplateSpec{} // that of an object from the API is nw's
	data, err := json.Marshal([]any{&spec, nw.Template})
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(data)
}

// abandoned ends a workload that the API does not have.
func (d desired) abandoned(recorded *corev1.Pod, now time.Time) desired {
	if d.gone || d.orphan {
		return d
	}
	if d.pod == nil {
		d.pod = recorded
	}
	if d.shown == nil {
		d.shown = recorded
	}
	d.orphan = !d.seen && !d.deleted
	d.gone = !d.orphan
	if !d.deleted {
		at := metav1.NewTime(now)
		d.pod = withDeletion(d.pod, &at, nil)
	}
	d.deleted = true
	d.version++
	return d
}

// ending takes the end that a caller asks for.
func (d desired) ending(t plan.Termination) desired {
	if d.asked != nil {
		t = d.asked.Joined(t)
	}
	d.asked = &t
	d.version++
	return d
}

// withDeletion returns a copy of the pod that is being deleted.
func withDeletion(pod *corev1.Pod, at *metav1.Time, grace *int64) *corev1.Pod {
	if pod == nil {
		return nil
	}
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = at
	pod.DeletionGracePeriodSeconds = grace
	return pod
}

// refusal names every field of a template that cannot be honoured; "" if none.
func refusal(t *corev1.PodTemplateSpec) string {
	refused, _ := template.Check(t, field.NewPath("spec", "template"))
	messages := make([]string, 0, len(refused))
	for _, e := range refused {
		messages = append(messages, e.Error())
	}
	return strings.Join(messages, "; ")
}
