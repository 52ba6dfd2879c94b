// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Indexes of the cache's NodeWorkloads.
const (
	// indexController is by the UID of the controlling ManagedWorkload.
	indexController = "controllerUID"
	// indexNode is by the name of the node.
	indexNode = "spec.nodeName"
)

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func indexByController(o client.Object) []string {
	if nw, ok := o.(*v1alpha1.NodeWorkload); ok && controllerUID(nw) != "" {
		return []string{string(controllerUID(nw))}
	}
	return nil
}

func indexByNode(o client.Object) []string {
	if nw, ok := o.(*v1alpha1.NodeWorkload); ok {
		return []string{nw.Spec.NodeName}
	}
	return nil
}

// workloadChanged lets through what a person may change, and not what the
// manager writes into the status.
func workloadChanged() predicate.Predicate {
	return predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
		}},
	)
}

// nodeWorkloadChanged lets through what matters to the manager's condition and to the
// release of a NodeWorkload.
func nodeWorkloadChanged() predicate.Predicate {
	return predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasShare := e.ObjectOld.(*v1alpha1.NodeWorkload)
			nw, isShare := e.ObjectNew.(*v1alpha1.NodeWorkload)
			if !wasShare || !isShare {
				return true
			}
			return !equality.Semantic.DeepEqual(old.OwnerReferences, nw.OwnerReferences) || !equality.Semantic.DeepEqual(
				meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionShimResponding),
				meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionShimResponding))
		}},
	)
}

// nodeChanged lets through what placement depends on: no heartbeats.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		old, wasNode := e.ObjectOld.(*corev1.Node)
		node, isNode := e.ObjectNew.(*corev1.Node)
		return !wasNode || !isNode || old.UID != node.UID ||
			!equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
			!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints)
	}}
}

// comesOrGoes lets through only the beginning and the end of an object.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// watchShares feeds the ledger with what NodeWorkloads report and wakes their
// ManagedWorkloads.
func (r *managedWorkloadReconciler) watchShares() handler.EventHandler {
	wake := func(o client.Object, q requestQueue) {
		if ref := workloadReference(o); ref != nil {
			q.Add(request(o.GetNamespace(), ref.Name))
		}
		if name := o.GetLabels()[v1alpha1.LabelWorkload]; name != "" {
			q.Add(request(o.GetNamespace(), name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q requestQueue) {
			if nw, ok := e.Object.(*v1alpha1.NodeWorkload); ok {
				r.kills.observe(nil, nw)
			}
			wake(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requestQueue) {
			old, wasShare := e.ObjectOld.(*v1alpha1.NodeWorkload)
			nw, isShare := e.ObjectNew.(*v1alpha1.NodeWorkload)
			if wasShare && isShare {
				r.kills.observe(old, nw)
			}
			wake(e.ObjectOld, q)
			wake(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requestQueue) {
			if nw, ok := e.Object.(*v1alpha1.NodeWorkload); ok {
				r.kills.gone(nw)
			}
			wake(e.Object, q)
		},
	}
}

// watchNodes wakes the ManagedWorkloads for which a Node's change makes a
// difference.
func (r *managedWorkloadReconciler) watchNodes() handler.EventHandler {
	wake := func(ctx context.Context, q requestQueue, concerns func(placement.Placer) bool) {
		list := &v1alpha1.ManagedWorkloadList{}
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to list ManagedWorkloads for a changed node")
			return
		}
		for i := range list.Items {
			mw := &list.Items[i]
			if concerns(placement.New(&mw.Spec.Template)) {
				q.Add(request(mw.Namespace, mw.Name))
			}
		}
	}
	admits := func(o client.Object) func(placement.Placer) bool {
		return func(p placement.Placer) bool {
			node, ok := o.(*corev1.Node)
			return ok && p.Place(node) != (placement.Placement{})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requestQueue) { wake(ctx, q, admits(e.Object)) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requestQueue) { wake(ctx, q, admits(e.Object)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requestQueue) {
			wake(ctx, q, func(p placement.Placer) bool {
				old, wasNode := e.ObjectOld.(*corev1.Node)
				node, isNode := e.ObjectNew.(*corev1.Node)
				return wasNode && isNode && p.Place(old) != p.Place(node)
			})
		},
	}
}

// watchNodes wakes the NodeWorkloads of a Node that came or went.
func (r *nodeWorkloadReconciler) watchNodes() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, node client.Object) []reconcile.Request {
		return r.nodeWorkloadsOn(ctx, node.GetName())
	})
}

// nodeWorkloadsOn are the NodeWorkloads of a node.
func (r *nodeWorkloadReconciler) nodeWorkloadsOn(ctx context.Context, node string) []reconcile.Request {
	list := &v1alpha1.NodeWorkloadList{}
	if err := r.client.List(ctx, list, client.MatchingFields{indexNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to list the NodeWorkloads of a node", "node", node)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, request(list.Items[i].Namespace, list.Items[i].Name))
	}
	return requests
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
