// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
func decide(p placement.Placement, nodeWorkload *v1alpha1.NodeWorkload, hash string, backoff *v1alpha1.RestartBackoff) step {
	switch {
	case nodeWorkload == nil && p.ShouldRun:
		return stepCreate
	case nodeWorkload == nil:
		return stepNone
	case !p.ShouldContinue:
		return stepEnd
	case !nodeWorkload.DeletionTimestamp.IsZero():
		return stepNone
	case terminal(nodeWorkload) && (nodeWorkload.Status.TemplateHash != hash || template.Hash(&nodeWorkload.Spec.Template) != hash):
		return stepReplace // it could never run again
	case template.Hash(&nodeWorkload.Spec.Template) != hash || !controllerutil.ContainsFinalizer(nodeWorkload, v1alpha1.Finalizer):
		return stepUpdate
	case !equality.Semantic.DeepEqual(nodeWorkload.Spec.RestartBackoff, backoff):
		return stepUpdate
	}
	return stepNone
}

// terminal reports whether a NodeWorkload has ended for good.
func terminal(nw *v1alpha1.NodeWorkload) bool {
	return nw.Status.Phase == corev1.PodSucceeded || nw.Status.Phase == corev1.PodFailed
}

// reconcileNodes gives every node what it needs. What fails on one node does not
// keep the others waiting. A NodeWorkload whose Node is gone is left alone: the
// Node may come back and find its containers.
func (r *Reconciler) reconcileNodes(ctx context.Context, s *scope) error {
	var errs []error
	for i := range s.nodes {
		node := &s.nodes[i]
		if s.inTheWay[node.Name] != nil {
			continue
		}
		nodeWorkload := s.nodeWorkloads[node.Name]
		var err error
		switch decide(s.placer.Place(node), nodeWorkload, s.hash, s.mw.Spec.RestartBackoff) {
		case stepNone:
		case stepCreate:
			err = r.create(ctx, s, node.Name)
		case stepUpdate:
			err = r.update(ctx, s, nodeWorkload)
		case stepEnd:
			err = r.end(ctx, s.mw, nodeWorkload, nil, byNoMatch)
		case stepReplace:
			err = r.end(ctx, s.mw, nodeWorkload, nil, byReplacement)
		}
		errs = append(errs, err)
	}
	for _, nw := range s.surplus {
		errs = append(errs, r.end(ctx, s.mw, nw, nil, bySurplus))
	}
	return errors.Join(errs...)
}

// newNodeWorkload is that of a workload on a node.
func (s *scope) newNodeWorkload(node string) *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.mw.Namespace,
			Name:      placement.NodeWorkloadName(s.mw.Name, node),
			Labels: map[string]string{
				v1alpha1.LabelWorkload: placement.LabelValue(s.mw.Name),
				v1alpha1.LabelNode:     placement.LabelValue(node),
			},
			Finalizers:      []string{v1alpha1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{writes.OwnerReference(s.mw)},
		},
		Spec: v1alpha1.NodeWorkloadSpec{
			NodeName:       node,
			Template:       *s.template.DeepCopy(),
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

func (r *Reconciler) update(ctx context.Context, s *scope, nw *v1alpha1.NodeWorkload) error {
	changed := nw.DeepCopy()
	changed.Spec.Template = *s.template.DeepCopy()
	changed.Spec.RestartBackoff = s.mw.Spec.RestartBackoff.DeepCopy()
	controllerutil.AddFinalizer(changed, v1alpha1.Finalizer)
	if err := r.client.Patch(ctx, changed, writes.Locked(nw)); err != nil {
		return fmt.Errorf("update NodeWorkload %q: %w", nw.Name, err) // and the status goes by nw as it is
	}
	*nw = *changed
	logr.FromContextOrDiscard(ctx).Info("Updated the template of NodeWorkload", "nodeWorkload", nw.Name, "node", nw.Spec.NodeName, "templateHash", s.hash)
	return nil
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
