// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
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
)

// indexNode is the index of the cache's NodeWorkloads by the name of the node.
const indexNode = "spec.nodeName"

func indexByNode(o client.Object) []string {
	if nw, ok := o.(*v1alpha1.NodeWorkload); ok {
		return []string{nw.Spec.NodeName}
	}
	return nil
}

// nodeWorkloadChanged lets through what matters to the manager's condition and to the
// release of a NodeWorkload.
func nodeWorkloadChanged() predicate.Predicate {
	return predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasNodeWorkload := e.ObjectOld.(*v1alpha1.NodeWorkload)
			nw, isNodeWorkload := e.ObjectNew.(*v1alpha1.NodeWorkload)
			if !wasNodeWorkload || !isNodeWorkload {
				return true
			}
			return !equality.Semantic.DeepEqual(old.OwnerReferences, nw.OwnerReferences) || !equality.Semantic.DeepEqual(
				meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionShimResponding),
				meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionShimResponding))
		}},
	)
}

// comesOrGoes lets through only the beginning and the end of an object.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// watchNodes wakes the NodeWorkloads of a Node that came or went.
func (r *Reconciler) watchNodes() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, node client.Object) []reconcile.Request {
		return r.nodeWorkloadsOn(ctx, node.GetName())
	})
}

// nodeWorkloadsOn are the NodeWorkloads of a node.
func (r *Reconciler) nodeWorkloadsOn(ctx context.Context, node string) []reconcile.Request {
	list := &v1alpha1.NodeWorkloadList{}
	if err := r.client.List(ctx, list, client.MatchingFields{indexNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to list the NodeWorkloads of a node", "node", node)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// SetUp adds the reconciler with its watches to mgr.
func (r *Reconciler) SetUp(ctx context.Context, mgr manager.Manager, options controller.Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.NodeWorkload{}, indexNode, indexByNode); err != nil {
		return fmt.Errorf("index the NodeWorkloads of the cache by node: %w", err)
	}
	log := mgr.GetLogger()
	err := ctrl.NewControllerManagedBy(mgr).Named("nodeworkload").
		For(&v1alpha1.NodeWorkload{}, builder.WithPredicates(contain.Updates(log, nodeWorkloadChanged()))).
		Watches(&coordinationv1.Lease{}, contain.Handler{EventHandler: r.shims.watch(r.nodeWorkloadsOn)}, builder.WithPredicates(predicate.NewPredicateFuncs(isShimLease))).
		Watches(&corev1.Node{}, contain.Handler{EventHandler: r.watchNodes()}, builder.WithPredicates(comesOrGoes())).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add the controller of NodeWorkloads: %w", err)
	}
	return nil
}
