// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
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

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// workloadChanged lets through what a person may change, and not what the
// manager writes into the status.
func workloadChanged() predicate.Predicate {
	return predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
		predicate.LabelChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
		}},
	)
}

// nodeChanged reports whether what placement depends on has changed: no heartbeats.
func nodeChanged(old, now *corev1.Node) bool {
	return old == nil || now == nil || old.UID != now.UID || !maps.Equal(old.Labels, now.Labels) ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, now.Spec.Taints)
}

// Changes of statuses alone wake a workload with many nodes a little later, one time for
// all that come until then: looking at all of it for each would cost its square.
const (
	// smallWorkload is up to how many NodeWorkloads each change wakes their workload at once.
	smallWorkload = 50
	// delayEach makes the delay proportional to what a look costs, within these bounds.
	delayEach          = 100 * time.Microsecond
	minDelay, maxDelay = 100 * time.Millisecond, time.Second
)

// delay is how long a changed status may wait in a workload with so many NodeWorkloads.
func delay(shares int) time.Duration {
	if shares <= smallWorkload {
		return 0
	}
	return min(max(time.Duration(shares)*delayEach, minDelay), maxDelay)
}

// watchShares wakes the ManagedWorkloads of NodeWorkloads. Its queue is that of all watches.
func (r *Reconciler) watchShares(q requestQueue) {
	r.queue = q
	r.fleet.Kills.Begin(time.Now())
	r.fleet.Shares.Listen(func(c fleet.Change) {
		if c.Unchanged() {
			return
		}
		after := time.Duration(0)
		if c.StatusOnly() {
			after = delay(r.fleet.Shares.Count(c.New.Workload()))
		}
		wake(q, c.Old, after)
		wake(q, c.New, after)
		if c.FreesQuota() {
			for _, waiting := range r.waitingForQuota(c.Old.Namespace) {
				q.Add(waiting)
			}
		}
	})
}

// wake asks for a look at the workload of a NodeWorkload, which may be nil, and at the one
// that it is labelled for.
func wake(q requestQueue, share *fleet.Share, after time.Duration) {
	if share == nil {
		return
	}
	if share.Controller.IsWorkload {
		q.AddAfter(request(share.Namespace, share.Controller.Name), after)
	}
	if name := share.Labels[v1alpha1.LabelWorkload]; name != "" && name != share.Controller.Name {
		q.AddAfter(request(share.Namespace, name), after)
	}
}

// securityChanged lets through what PodSecurity admission goes by.
func securityChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasNamespace := e.ObjectOld.(*corev1.Namespace)
			ns, isNamespace := e.ObjectNew.(*corev1.Namespace)
			return wasNamespace && isNamespace && admission.PodSecurity(old) != admission.PodSecurity(ns)
		},
	}
}

// watchNamespaces wakes the ManagedWorkloads of a namespace.
func (r *Reconciler) watchNamespaces() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, ns client.Object) (requests []reconcile.Request) {
		list := &v1alpha1.ManagedWorkloadList{}
		if err := r.client.List(ctx, list, client.InNamespace(ns.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to list the ManagedWorkloads of a namespace")
		}
		for i := range list.Items {
			requests = append(requests, request(list.Items[i].Namespace, list.Items[i].Name))
		}
		return requests
	})
}

// watchNodes wakes the ManagedWorkloads for which a Node's change makes a
// difference.
func (r *Reconciler) watchNodes(ctx context.Context) func(requestQueue) {
	return func(q requestQueue) {
		r.fleet.Nodes.Listen(func(old, now *corev1.Node) {
			if nodeChanged(old, now) {
				r.wakeByNode(ctx, q, old, now)
			}
		})
	}
}

func (r *Reconciler) wakeByNode(ctx context.Context, q requestQueue, old, now *corev1.Node) {
	list := &v1alpha1.ManagedWorkloadList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to list ManagedWorkloads for a changed node")
		return
	}
	for i := range list.Items {
		mw := &list.Items[i]
		if p := r.placerOf(mw); placeOf(p, old) != placeOf(p, now) || selected(mw, old) != selected(mw, now) {
			q.Add(request(mw.Namespace, mw.Name))
		}
	}
}

// watchShims wakes the ManagedWorkloads of a node, and those that should run there, when its
// shim comes, comes back or falls silent.
func (r *Reconciler) watchShims(ctx context.Context) func(requestQueue) {
	return func(q requestQueue) {
		r.fleet.Shims.Listen(func(name string) {
			if node := r.fleet.Nodes.Get(name); node != nil {
				r.wakeByShim(ctx, q, node)
			}
		})
	}
}

func (r *Reconciler) wakeByShim(ctx context.Context, q requestQueue, node *corev1.Node) {
	there := map[types.UID]bool{}
	for _, key := range r.fleet.Shares.OnNode(node.Name) {
		if share := r.fleet.Shares.Get(key); share != nil {
			there[share.Workload()] = true
		}
	}
	list := &v1alpha1.ManagedWorkloadList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to list ManagedWorkloads for a shim")
		return
	}
	for i := range list.Items {
		mw := &list.Items[i]
		switch {
		case there[mw.UID]: // its condition may never have said that the shim was silent
			q.AddAfter(request(mw.Namespace, mw.Name), delay(r.fleet.Shares.Count(mw.UID)))
		case r.placerOf(mw).Place(node).ShouldRun:
			q.Add(request(mw.Namespace, mw.Name))
		}
	}
}

// selected reports whether a Node, which may be nil, has the labels that an update asks for.
func selected(mw *v1alpha1.ManagedWorkload, node *corev1.Node) bool {
	selector := rollout.NodeSelector(&mw.Spec)
	return len(selector) > 0 && node != nil && labels.SelectorFromSet(selector).Matches(labels.Set(node.Labels))
}

// placeOf is the placement on a Node, which may be nil: there nothing is.
func placeOf(p placement.Placer, node *corev1.Node) placement.Placement {
	if node == nil {
		return placement.Placement{}
	}
	return p.Place(node)
}

// placerOf places a workload as its admitted template says, as far as there is one:
// admission may add a node selector or tolerations.
func (r *Reconciler) placerOf(mw *v1alpha1.ManagedWorkload) placement.Placer {
	if known := r.memories.of(mw); known.placer != nil {
		return *known.placer
	}
	return placement.New(&mw.Spec.Template)
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// SetUp adds the reconciler with its watches to mgr.
func (r *Reconciler) SetUp(ctx context.Context, mgr manager.Manager, options controller.Options) error {
	log := mgr.GetLogger()
	err := ctrl.NewControllerManagedBy(mgr).Named("managedworkload").
		For(&v1alpha1.ManagedWorkload{}, builder.WithPredicates(contain.Updates(log, workloadChanged()))).
		WatchesRawSource(r.fleet.Shares.Source(r.watchShares)).
		WatchesRawSource(r.fleet.Nodes.Source(r.watchNodes(ctx))).
		WatchesRawSource(r.fleet.Shims.Source(r.watchShims(ctx))).
		Owns(&v1alpha1.ManagedWorkloadRevision{}, builder.WithPredicates(contain.Updates(log, predicate.GenerationChangedPredicate{}))).
		Watches(&corev1.Namespace{}, contain.Handler{EventHandler: r.watchNamespaces()}, builder.WithPredicates(contain.Updates(log, securityChanged()))).
		Watches(&corev1.ResourceQuota{}, contain.Handler{EventHandler: r.watchQuotas()}, builder.WithPredicates(contain.Updates(log, quotaMadeRoom()))).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add the controller of ManagedWorkloads: %w", err)
	}
	return nil
}
