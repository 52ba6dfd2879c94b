// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"

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

	"github.com/managedworkload/managedworkload/controllers/contain"
)

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// concerns lets through what matters to the manager's condition and to the release of a
// NodeWorkload.
func concerns(c Change) bool {
	return c.Old == nil || c.New == nil || c.Old.UID != c.New.UID || c.Old.Generation != c.New.Generation ||
		!c.Old.Deleted.Equal(c.New.Deleted) || !c.Old.sameController(c.New) || !c.Old.sameShim(c.New)
}

// watchIndex wakes a NodeWorkload that has changed.
func (r *Reconciler) watchIndex(q requestQueue) {
	r.index.Listen(func(c Change) {
		if !concerns(c) {
			return
		}
		share := c.New
		if share == nil {
			share = c.Old
		}
		q.Add(reconcile.Request{NamespacedName: share.Key()})
	})
}

// watchShims wakes the NodeWorkloads of a node whose shim came, came back or fell silent.
func (r *Reconciler) watchShims(q requestQueue) {
	r.shims.Listen(func(node string) {
		for _, request := range r.nodeWorkloadsOn(node) {
			q.Add(request)
		}
	})
}

// comesOrGoes lets through only the beginning and the end of an object.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// watchNodes wakes the NodeWorkloads of a Node that came or went.
func (r *Reconciler) watchNodes() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, node client.Object) []reconcile.Request {
		return r.nodeWorkloadsOn(node.GetName())
	})
}

// nodeWorkloadsOn are the NodeWorkloads of a node.
func (r *Reconciler) nodeWorkloadsOn(node string) []reconcile.Request {
	keys := r.index.OnNode(node)
	requests := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// SetUp adds the reconciler with its watches to mgr.
func (r *Reconciler) SetUp(mgr manager.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("nodeworkload").
		WatchesRawSource(r.index.Source(r.watchIndex)).
		WatchesRawSource(r.shims.Source(r.watchShims)).
		Watches(&corev1.Node{}, contain.Handler{EventHandler: r.watchNodes()}, builder.WithPredicates(comesOrGoes())).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add the controller of NodeWorkloads: %w", err)
	}
	return nil
}
