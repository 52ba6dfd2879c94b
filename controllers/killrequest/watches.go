// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"fmt"
	"time"

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
func (r *Reconciler) watchShares(q requestQueue) {
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
			for _, key := range r.stops.of(c.New.Namespace, c.New.Controller.Name) {
				q.AddAfter(reconcile.Request{NamespacedName: key}, gathering)
			}
		}
	})
}

// SetUp adds the reconciler with its watches to mgr.
func (r *Reconciler) SetUp(mgr manager.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("killrequest").
		For(&v1alpha1.KillRequest{}, builder.WithPredicates(contain.Updates(mgr.GetLogger(), predicate.GenerationChangedPredicate{}))).
		WatchesRawSource(r.fleet.Shares.Source(r.watchShares)).
		WatchesRawSource(r.fleet.Nodes.Source(func(requestQueue) {})).
		WatchesRawSource(r.fleet.Shims.Source(func(requestQueue) {})).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add the controller of KillRequests: %w", err)
	}
	return nil
}
