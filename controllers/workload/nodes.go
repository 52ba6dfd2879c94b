// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Who asked for the end of a NodeWorkload, as its kill records name it.
const (
	byWorkloadDeleted = "manager (ManagedWorkload deleted)"
	byNoMatch         = "manager (node no longer matches)"
	byReplacement     = "manager (replaced: it had ended and its template changed)"
	bySurplus         = "manager (second NodeWorkload of its node)"
)

// step is what one node needs.
type step int

const (
	stepNone step = iota
	stepCreate
	stepUpdate
	stepEnd
	stepReplace
)

// decide says what a node needs. nodeWorkload is nil when it has none.
func decide(p placement.Placement, nodeWorkload *v1alpha1.NodeWorkload, w *wanted) step {
	switch {
	case nodeWorkload == nil && p.ShouldRun:
		return stepCreate
	case nodeWorkload == nil:
		return stepNone
	case !p.ShouldContinue:
		return stepEnd
	case !nodeWorkload.DeletionTimestamp.IsZero():
		return stepNone
	case terminal(nodeWorkload) && (nodeWorkload.Status.TemplateHash != w.hash || template.Hash(&nodeWorkload.Spec.Template) != w.hash):
		return stepReplace // it could never run again
	case len(w.drift(nodeWorkload)) > 0:
		return stepUpdate
	}
	return stepNone
}

// terminal reports whether a NodeWorkload has ended for good.
func terminal(nw *v1alpha1.NodeWorkload) bool {
	return nw.Status.Phase == corev1.PodSucceeded || nw.Status.Phase == corev1.PodFailed
}

// nodeStep is what a node needs, with its NodeWorkload, nil if it has none.
type nodeStep struct {
	step

	node         string
	nodeWorkload *v1alpha1.NodeWorkload
}

// steps are what the nodes need. A NodeWorkload whose Node is gone is left alone: the
// Node may come back and find its containers.
func (s *scope) steps() []nodeStep {
	var steps []nodeStep
	for i := range s.nodes {
		node := &s.nodes[i]
		if s.inTheWay[node.Name] != nil {
			continue
		}
		nodeWorkload := s.nodeWorkloads[node.Name]
		if next := decide(s.placer.Place(node), nodeWorkload, s.wanted); next != stepNone {
			steps = append(steps, nodeStep{next, node.Name, nodeWorkload})
		}
	}
	return steps
}

// spreads reports whether a step gives a node a template that it does not have.
func (s *scope) spreads(next nodeStep) bool {
	switch next.step {
	case stepCreate, stepReplace:
		return true
	case stepUpdate:
		return next.nodeWorkload.Labels[v1alpha1.LabelRevision] != s.hash && definition(s.wanted.drift(next.nodeWorkload))
	case stepNone, stepEnd:
	}
	return false
}

// reconcileNodes gives every node what it needs. What fails on one node does not
// keep the others waiting, and nothing waits for an answer of admission but what spreads
// the template.
func (r *Reconciler) reconcileNodes(ctx context.Context, s *scope) error {
	var spreading []nodeStep
	var errs []error
	for _, next := range s.steps() {
		if s.spreads(next) {
			spreading = append(spreading, next)
			continue
		}
		errs = append(errs, r.carryOut(ctx, s, next))
	}
	for _, nw := range s.surplus {
		errs = append(errs, r.end(ctx, s.mw, nw, nil, bySurplus))
	}
	may, err := r.maySpread(ctx, s, len(spreading) > 0)
	errs = append(errs, err)
	if may {
		for _, next := range spreading {
			errs = append(errs, r.carryOut(ctx, s, next))
		}
	} else {
		s.held = len(spreading)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if s.held == 0 {
		s.memory.applied = s.wanted
	}
	return nil
}

// carryOut does what a node needs.
func (r *Reconciler) carryOut(ctx context.Context, s *scope, next nodeStep) error {
	switch next.step {
	case stepNone:
	case stepCreate:
		return r.create(ctx, s, next.node)
	case stepUpdate:
		return r.update(ctx, s, next.nodeWorkload)
	case stepEnd:
		return r.end(ctx, s.mw, next.nodeWorkload, nil, byNoMatch)
	case stepReplace:
		return r.end(ctx, s.mw, next.nodeWorkload, nil, byReplacement)
	}
	return nil
}

// newNodeWorkload is that of a workload on a node.
func (s *scope) newNodeWorkload(node string) *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.mw.Namespace,
			Name:            placement.NodeWorkloadName(s.mw.Name, node),
			Labels:          s.wanted.labels(node),
			Finalizers:      []string{v1alpha1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{writes.OwnerReference(s.mw)},
		},
		Spec: v1alpha1.NodeWorkloadSpec{
			NodeName:       node,
			Template:       *s.admitted.DeepCopy(),
			RestartBackoff: s.mw.Spec.RestartBackoff.DeepCopy(),
		},
		// The API server's default, so that 0 is not read as an observed one.
		Status: v1alpha1.NodeWorkloadStatus{ObservedGeneration: -1},
	}
}

func (r *Reconciler) create(ctx context.Context, s *scope, node string) error {
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	nw := s.newNodeWorkload(node)
	if err := r.client.Create(ctx, nw); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return err // the cache is behind
		}
		r.recorder.Eventf(s.mw, corev1.EventTypeWarning, eventFailedCreate, "Error creating: %v", err)
		return fmt.Errorf("create NodeWorkload %q: %w", nw.Name, err)
	}
	s.nodeWorkloads[node] = nw
	r.recorder.Eventf(s.mw, corev1.EventTypeNormal, eventSuccessfulCreate, "Created NodeWorkload: %s", nw.Name)
	logr.FromContextOrDiscard(ctx).Info("Created NodeWorkload", "nodeWorkload", nw.Name, "node", node)
	return nil
}

// update brings a NodeWorkload to what it should be. What was changed by hand is put
// back, and an event says so.
func (r *Reconciler) update(ctx context.Context, s *scope, nw *v1alpha1.NodeWorkload) error {
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	edits, who, err := r.handEdits(ctx, s, nw)
	if err != nil {
		return err
	}
	changed := nw.DeepCopy()
	changed.Labels = s.wanted.labels(nw.Spec.NodeName)
	controllerutil.AddFinalizer(changed, v1alpha1.Finalizer)
	if definition(s.wanted.drift(nw)) {
		changed.Spec.Template = *s.admitted.DeepCopy()
		changed.Spec.RestartBackoff = s.mw.Spec.RestartBackoff.DeepCopy()
		by := s.changedBy
		if definition(edits) {
			by = writes.FieldManager
		}
		setChangedBy(changed, by)
	}
	if err := r.client.Patch(ctx, changed, writes.Locked(nw)); err != nil {
		return fmt.Errorf("update NodeWorkload %q: %w", nw.Name, err) // and the status goes by nw as it is
	}
	for _, key := range s.wanted.labelDrift(changed) { // in what the API server made of it
		s.wanted.imposed[key] = true
	}
	*nw = *changed
	if len(edits) > 0 {
		r.warn(s.mw, eventPutBack, putBackMessage(nw.Name, edits, who))
	}
	logr.FromContextOrDiscard(ctx).Info("Updated NodeWorkload", "nodeWorkload", nw.Name, "node", nw.Spec.NodeName, "templateHash", s.hash)
	return nil
}

// handEdits looks at a NodeWorkload past the cache, which has no managedFields, where
// not all of its drift is what the workload itself changed.
func (r *Reconciler) handEdits(ctx context.Context, s *scope, nw *v1alpha1.NodeWorkload) (edits []part, who string, err error) {
	if applied := s.memory.applied; applied != nil {
		if suspects, _ := s.wanted.handEdits(applied, nw); len(suspects) == 0 {
			return nil, "", nil
		}
	}
	live := &v1alpha1.NodeWorkload{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(nw), live); err != nil {
		return nil, "", fmt.Errorf("get NodeWorkload %q past the cache: %w", nw.Name, err)
	}
	edits, who = s.wanted.handEdits(s.memory.applied, live)
	return edits, who, nil
}

// setChangedBy tells the shim who changed the definition, as far as that is known.
func setChangedBy(nw *v1alpha1.NodeWorkload, by string) {
	if by == "" {
		delete(nw.Annotations, v1alpha1.AnnotationChangedBy)
		return
	}
	metav1.SetMetaDataAnnotation(&nw.ObjectMeta, v1alpha1.AnnotationChangedBy, by)
}

func putBackMessage(name string, edits []part, who string) string {
	var parts []string
	for _, p := range edits {
		parts = append(parts, p.String())
	}
	message := fmt.Sprintf("Put back %s of NodeWorkload %s", strings.Join(parts, ", "), name)
	if who != "" {
		message += ", changed by " + who
	}
	return message
}

// end deletes a NodeWorkload with a grace period, in seconds; nil means its
// template's own. The grace period may still shrink while it ends.
func (r *Reconciler) end(ctx context.Context, mw *v1alpha1.ManagedWorkload, nw *v1alpha1.NodeWorkload, grace *int64, by string) error {
	if err := writes.RequestEnd(ctx, r.client, nw, grace, by); err != nil {
		return err
	}
	if !nw.DeletionTimestamp.IsZero() {
		return nil
	}
	err := r.client.Delete(ctx, nw, writes.AsSeen(nw))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		return err // the cache is behind
	}
	if err != nil {
		r.recorder.Eventf(mw, corev1.EventTypeWarning, eventFailedDelete, "Error deleting: %v", err)
		return fmt.Errorf("delete NodeWorkload %q: %w", nw.Name, err)
	}
	r.recorder.Eventf(mw, corev1.EventTypeNormal, eventSuccessfulDelete, "Deleted NodeWorkload: %s", nw.Name)
	logr.FromContextOrDiscard(ctx).Info("Deleted NodeWorkload", "nodeWorkload", nw.Name, "node", nw.Spec.NodeName, "requestedBy", by)
	nw.DeletionTimestamp = new(metav1.Now())
	return nil
}
