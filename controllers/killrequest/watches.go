// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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

// watchNodes wakes the requests that hold containers stopped when the labels of a node change,
// or it comes or goes.
func (r *Reconciler) watchNodes(q requestQueue) {
	r.fleet.Nodes.Listen(func(old, now *corev1.Node) {
		if old != nil && now != nil && maps.Equal(old.Labels, now.Labels) {
			return
		}
		for _, key := range r.stops.all() {
			q.AddAfter(reconcile.Request{NamespacedName: key}, gathering)
		}
	})
}

// stopsOf are the requests that hold containers of a ManagedWorkload stopped.
func (r *Reconciler) stopsOf(_ context.Context, mw client.Object) (requests []reconcile.Request) {
	for _, key := range r.stops.of(mw.GetNamespace(), mw.GetName()) {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// comesOrGoes are the events of an object that comes or goes.
var comesOrGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// SetUp adds the reconciler with its watches to mgr.
func (r *Reconciler) SetUp(mgr manager.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("killrequest").
		For(&v1alpha1.KillRequest{}, builder.WithPredicates(contain.Updates(mgr.GetLogger(), predicate.GenerationChangedPredicate{}))).
		Watches(&v1alpha1.ManagedWorkload{}, contain.Handler{EventHandler: handler.EnqueueRequestsFromMapFunc(r.stopsOf)}, builder.WithPredicates(comesOrGoes)).
		WatchesRawSource(r.fleet.Shares.Source(r.watchShares)).
		WatchesRawSource(r.fleet.Nodes.Source(r.watchNodes)).
		WatchesRawSource(r.fleet.Shims.Source(func(requestQueue) {})).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add the controller of KillRequests: %w", err)
	}
	return nil
}
