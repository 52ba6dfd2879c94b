// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// inTheWayRecheck is when it is looked at again whether a name is still taken.
const inTheWayRecheck = 10 * time.Second

// reconcileAdoption takes over NodeWorkloads that an earlier ManagedWorkload of
// the same name left behind, and notes what stands in the way on nodes that
// should have one.
func (r *Reconciler) reconcileAdoption(ctx context.Context, s *scope) error {
	labelled := &v1alpha1.NodeWorkloadList{}
	if err := r.client.List(ctx, labelled, client.InNamespace(s.mw.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingLabels{v1alpha1.LabelWorkload: placement.LabelValue(s.mw.Name)}); err != nil {
		return fmt.Errorf("list NodeWorkloads: %w", err)
	}
	var errs []error
	for i := range labelled.Items {
		nw := &labelled.Items[i]
		if !s.isOrphan(nw) || !s.isName(nw.Name, nw.Spec.NodeName) || !nw.DeletionTimestamp.IsZero() {
			continue
		}
		errs = append(errs, r.adopt(ctx, s, nw.DeepCopy()))
	}
	return errors.Join(errors.Join(errs...), r.findInTheWay(ctx, s))
}

// isName reports whether a name is one that our NodeWorkload on a node has or may have
// had.
func (s *scope) isName(name, node string) bool {
	return name == placement.NodeWorkloadName(s.mw.Name, node) || name == placement.EarlierNodeWorkloadName(s.mw.Name, node)
}

// adopt makes a NodeWorkload without a controller one of ours.
func (r *Reconciler) adopt(ctx context.Context, s *scope, nw *v1alpha1.NodeWorkload) error {
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	base := nw.DeepCopy()
	nw.OwnerReferences = append(nw.OwnerReferences, writes.OwnerReference(s.mw))
	controllerutil.AddFinalizer(nw, v1alpha1.Finalizer)
	metav1.SetMetaDataLabel(&nw.ObjectMeta, v1alpha1.LabelNode, placement.LabelValue(nw.Spec.NodeName))
	if err := r.client.Patch(ctx, nw, writes.Locked(base)); err != nil {
		return fmt.Errorf("adopt NodeWorkload %q: %w", nw.Name, err)
	}
	s.take(nw)
	r.recorder.Eventf(s.mw, corev1.EventTypeNormal, eventAdopted, "Adopted NodeWorkload: %s", nw.Name)
	logr.FromContextOrDiscard(ctx).Info("Adopted NodeWorkload", "nodeWorkload", nw.Name, "node", nw.Spec.NodeName)
	return nil
}

// findInTheWay notes the nodes on which the name of our NodeWorkload is taken by
// another's, or on which a NodeWorkload of an earlier object of our name still ends:
// two instances of one workload never run at once on a node.
func (r *Reconciler) findInTheWay(ctx context.Context, s *scope) error {
	for i := range s.nodes {
		node := &s.nodes[i]
		if s.nodeWorkloads[node.Name] != nil || !s.placer.Place(node).ShouldRun {
			continue
		}
		nw, err := r.inTheWay(ctx, s, node.Name)
		if err != nil {
			return err
		}
		if nw != nil {
			s.inTheWay[node.Name] = nw
			// The end of another workload's NodeWorkload does not wake this one.
			s.wakeAfter(inTheWayRecheck)
		}
	}
	return nil
}

// inTheWay is the NodeWorkload that keeps ours from a node, or nil. The earlier form of
// our name may be that of another workload, which is not in the way.
func (r *Reconciler) inTheWay(ctx context.Context, s *scope, node string) (*v1alpha1.NodeWorkload, error) {
	ours := placement.NodeWorkloadName(s.mw.Name, node)
	for _, name := range []string{ours, placement.EarlierNodeWorkloadName(s.mw.Name, node)} {
		nw := &v1alpha1.NodeWorkload{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: s.mw.Namespace, Name: name}, nw)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get NodeWorkload %q: %w", name, err)
		case name == ours, nw.Spec.NodeName == node && (s.isNamesake(nw) || s.isOrphan(nw)):
			return nw, nil
		}
	}
	return nil, nil
}

// isOrphan reports whether a NodeWorkload of ours was let go.
func (s *scope) isOrphan(nw *v1alpha1.NodeWorkload) bool {
	return metav1.GetControllerOfNoCopy(nw) == nil && nw.Labels[v1alpha1.LabelWorkload] == placement.LabelValue(s.mw.Name)
}

// isNamesake reports whether an object of our name controls a NodeWorkload.
func (s *scope) isNamesake(nw *v1alpha1.NodeWorkload) bool {
	ref := writes.WorkloadReference(nw)
	return ref != nil && ref.Name == s.mw.Name
}

// conflict says why the NodeWorkload that is in the way on a node is not ours; it
// is empty when there is none, or one that is only to be waited for.
func (s *scope) conflict(node string) string {
	nw := s.inTheWay[node]
	if nw == nil || !nw.DeletionTimestamp.IsZero() {
		return ""
	}
	if s.isNamesake(nw) {
		return "" // of an earlier object of our name, and ends with it
	}
	if ref := metav1.GetControllerOfNoCopy(nw); ref != nil {
		return fmt.Sprintf("NodeWorkload %s is controlled by %s %s (UID %s)", nw.Name, ref.Kind, ref.Name, ref.UID)
	}
	return fmt.Sprintf("NodeWorkload %s is not labelled %s=... as one of this workload", nw.Name, v1alpha1.LabelWorkload)
}

// orphan takes a NodeWorkload out of our hands and leaves its containers alone.
func (r *Reconciler) orphan(ctx context.Context, s *scope, nw *v1alpha1.NodeWorkload) error {
	base := nw.DeepCopy()
	nw.OwnerReferences = slices.DeleteFunc(nw.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == s.mw.UID })
	if err := r.client.Patch(ctx, nw, writes.Locked(base)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("orphan NodeWorkload %q: %w", nw.Name, err)
	}
	logr.FromContextOrDiscard(ctx).Info("Orphaned NodeWorkload", "nodeWorkload", nw.Name, "node", nw.Spec.NodeName)
	return nil
}
