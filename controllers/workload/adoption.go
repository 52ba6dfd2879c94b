// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// inTheWayRecheck is when it is looked at again whether a name is still taken.
const inTheWayRecheck = 10 * time.Second

// reconcileAdoption takes over NodeWorkloads that an earlier ManagedWorkload of
// the same name left behind, and notes what stands in the way on nodes that
// should have one.
func (r *Reconciler) reconcileAdoption(ctx context.Context, s *scope) error {
	var errs failures
	for _, share := range r.fleet.Shares.Orphans(s.mw.Namespace, placement.LabelValue(s.mw.Name)) {
		if share.Name == placement.NodeWorkloadName(s.mw.Name, share.Node) && !share.Deleting() {
			errs.add(r.adopt(ctx, s, share))
		}
	}
	r.findInTheWay(s)
	return errs.err()
}

// adopt makes a NodeWorkload without a controller one of ours.
func (r *Reconciler) adopt(ctx context.Context, s *scope, share *fleet.Share) error {
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	nw := &v1alpha1.NodeWorkload{}
	if err := r.live.Get(ctx, share.Key(), nw); err != nil { // for the references of other owners
		return fmt.Errorf("get NodeWorkload %q past the cache: %w", share.Name, err)
	}
	share = fleet.ShareOf(nw, nil)
	if !s.isOrphan(share) || share.Deleting() {
		return nil
	}
	edit := share.Edit()
	edit.Set(append(nw.OwnerReferences, writes.OwnerReference(s.mw)), "metadata", "ownerReferences")
	share.KeepFinalizer(edit)
	edit.Set(placement.LabelValue(share.Node), "metadata", "labels", v1alpha1.LabelNode) // it has labels, or it were no orphan of ours
	nw, err := edit.Apply(ctx, r.client)
	if err != nil {
		return fmt.Errorf("adopt NodeWorkload %q: %w", share.Name, err)
	}
	share = fleet.ShareOf(nw, share)
	s.take(share)
	s.renew(share)
	r.recorder.Eventf(s.mw, corev1.EventTypeNormal, eventAdopted, "Adopted NodeWorkload: %s", share.Name)
	logr.FromContextOrDiscard(ctx).Info("Adopted NodeWorkload", "nodeWorkload", share.Name, "node", share.Node)
	return nil
}

// findInTheWay notes the nodes on which the name of our NodeWorkload is taken by
// another's, or on which a NodeWorkload of an earlier object of our name still ends:
// two instances of one workload never run at once on a node.
func (r *Reconciler) findInTheWay(s *scope) {
	for i, p := range s.place() {
		node := s.nodes[i].Name
		if s.shares[node] != nil || !p.ShouldRun {
			continue
		}
		if share := r.inTheWay(s, node); share != nil {
			s.inTheWay[node] = share
			// The end of another workload's NodeWorkload does not wake this one.
			s.wakeAfter(inTheWayRecheck)
		}
	}
}

// inTheWay is the NodeWorkload that keeps ours from a node, or nil.
func (r *Reconciler) inTheWay(s *scope, node string) *fleet.Share {
	return r.fleet.Shares.Get(client.ObjectKey{Namespace: s.mw.Namespace, Name: placement.NodeWorkloadName(s.mw.Name, node)})
}

// isOrphan reports whether a NodeWorkload of ours was let go.
func (s *scope) isOrphan(share *fleet.Share) bool {
	return share.Controller == (fleet.Controller{}) && share.Labels[v1alpha1.LabelWorkload] == placement.LabelValue(s.mw.Name)
}

// isNamesake reports whether an object of our name controls a NodeWorkload.
func (s *scope) isNamesake(share *fleet.Share) bool {
	return share.Controller.IsWorkload && share.Controller.Name == s.mw.Name
}

// conflict says why the NodeWorkload that is in the way on a node is not ours; it
// is empty when there is none, or one that is only to be waited for.
func (s *scope) conflict(node string) string {
	share := s.inTheWay[node]
	if share == nil || share.Deleting() {
		return ""
	}
	if s.isNamesake(share) {
		return "" // of an earlier object of our name, and ends with it
	}
	if c := share.Controller; c != (fleet.Controller{}) {
		return fmt.Sprintf("NodeWorkload %s is controlled by %s %s (UID %s)", share.Name, c.Kind, c.Name, c.UID)
	}
	return fmt.Sprintf("NodeWorkload %s is not labelled %s=... as one of this workload", share.Name, v1alpha1.LabelWorkload)
}

// orphan takes a NodeWorkload out of our hands and leaves its containers alone.
func (r *Reconciler) orphan(ctx context.Context, s *scope, share *fleet.Share) error {
	nw := &v1alpha1.NodeWorkload{}
	err := r.live.Get(ctx, share.Key(), nw) // for the references of other owners
	if err == nil && nw.UID == share.UID {
		edit := fleet.ShareOf(nw, share).Edit()
		ours := func(ref metav1.OwnerReference) bool { return ref.UID == s.mw.UID }
		edit.Set(append([]metav1.OwnerReference{}, slices.DeleteFunc(nw.OwnerReferences, ours)...), "metadata", "ownerReferences")
		_, err = edit.Apply(ctx, r.client)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("orphan NodeWorkload %q: %w", share.Name, err)
	}
	logr.FromContextOrDiscard(ctx).Info("Orphaned NodeWorkload", "nodeWorkload", share.Name, "node", share.Node)
	return nil
}
