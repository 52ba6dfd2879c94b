// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetUp adds the reconciler with its watches to mgr.
func (r *Reconciler) SetUp(mgr manager.Manager, options controller.Options) error {
	if r.pods != nil {
		if err := mgr.Add(r.pods); err != nil {
			return fmt.Errorf("add the watch of Pods: %w", err)
		}
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("reservation").
		WatchesRawSource(r.index.Source(r.watchIndex)).
		WatchesRawSource(r.nodes.Source(r.watchNodes)).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add the controller of reservations: %w", err)
	}
	return nil
}

// wake has a node looked at when its changes have settled.
func (r *Reconciler) wake(q requestQueue, node string) {
	q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: node}}, r.timing.settle)
}

// watchIndex wakes nodes of which another amount is requested.
func (r *Reconciler) watchIndex(q requestQueue) {
	r.index.ListenAmounts(func(node string) { r.wake(q, node) })
}

// watchNodes wakes nodes whose Pod has changed, all of them when there is a first Pod or none any
// more, and those that have more or less for Pods.
func (r *Reconciler) watchNodes(q requestQueue) {
	if r.pods == nil {
		return
	}
	r.nodes.Listen(func(old, now *corev1.Node) {
		if old != nil && now != nil && fleet.AmountIn(old.Status.Allocatable) != fleet.AmountIn(now.Status.Allocatable) {
			r.wake(q, now.Name)
		}
	})
	r.pods.Listen(func(nodes ...string) {
		for _, node := range nodes {
			r.wake(q, node)
		}
		if len(nodes) > 0 {
			return
		}
		for _, node := range r.nodes.All() {
			r.wake(q, node.Name)
		}
	})
}
