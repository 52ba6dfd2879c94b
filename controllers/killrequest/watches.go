// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// gathering is how long the report of a node waits for further reports: one look serves them all.
const gathering = 50 * time.Millisecond

// watchShares wakes the requests of NodeWorkloads that changed, and those that hold containers
// stopped wherever a NodeWorkload comes.
func (r *Reconciler) watchShares(ctx context.Context) func(requestQueue) {
	return func(q requestQueue) {
		r.fleet.Shares.Listen(func(c fleet.Change) {
			if c.Unchanged() {
				return
			}
			for _, share := range []*fleet.Share{c.Old, c.New} {
				for _, request := range share.RequestList() {
					q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: share.Namespace, Name: request.Name}}, gathering)
				}
			}
			if c.Old == nil && c.New != nil {
				r.wakeStops(ctx, q, c.New)
			}
		})
	}
}

// wakeStops wakes the requests that stop containers of the workload of a NodeWorkload.
func (r *Reconciler) wakeStops(ctx context.Context, q requestQueue, share *fleet.Share) {
	list := &v1alpha1.KillRequestList{}
	if err := r.client.List(ctx, list, client.InNamespace(share.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to list the KillRequests of a new NodeWorkload")
		return
	}
	for i := range list.Items {
		if kr := &list.Items[i]; kr.Spec.Action == v1alpha1.RequestStop && kr.Spec.WorkloadName == share.Controller.Name {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(kr)})
		}
	}
}

// SetUp adds the reconciler with its watches to mgr.
func (r *Reconciler) SetUp(ctx context.Context, mgr manager.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("killrequest").
		For(&v1alpha1.KillRequest{}, builder.WithPredicates(contain.Updates(mgr.GetLogger(), predicate.GenerationChangedPredicate{}))).
		WatchesRawSource(r.fleet.Shares.Source(r.watchShares(ctx))).
		WatchesRawSource(r.fleet.Nodes.Source(func(requestQueue) {})).
		WatchesRawSource(r.fleet.Shims.Source(func(requestQueue) {})).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add the controller of KillRequests: %w", err)
	}
	return nil
}
