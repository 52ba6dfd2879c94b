// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// indexController is the index of the cache's NodeWorkloads by the UID of the
// ManagedWorkload that controls them.
const indexController = "controllerUID"

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func indexByController(o client.Object) []string {
	if nw, ok := o.(*v1alpha1.NodeWorkload); ok && writes.ControllerUID(nw) != "" {
		return []string{string(writes.ControllerUID(nw))}
	}
	return nil
}

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

// watchNodeWorkloads feeds the ledger with what NodeWorkloads report and wakes their
// ManagedWorkloads.
func (r *Reconciler) watchNodeWorkloads() handler.EventHandler {
	wake := func(o client.Object, q requestQueue) {
		if ref := writes.WorkloadReference(o); ref != nil {
			q.Add(request(o.GetNamespace(), ref.Name))
		}
		if name := o.GetLabels()[v1alpha1.LabelWorkload]; name != "" {
			q.Add(request(o.GetNamespace(), name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q requestQueue) {
			if nw, ok := e.Object.(*v1alpha1.NodeWorkload); ok {
				r.kills.Observe(nil, nw)
			}
			wake(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requestQueue) {
			old, wasNodeWorkload := e.ObjectOld.(*v1alpha1.NodeWorkload)
			nw, isNodeWorkload := e.ObjectNew.(*v1alpha1.NodeWorkload)
			if wasNodeWorkload && isNodeWorkload {
				r.kills.Observe(old, nw)
			}
			wake(e.ObjectOld, q)
			wake(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requestQueue) {
			if nw, ok := e.Object.(*v1alpha1.NodeWorkload); ok {
				r.kills.Gone(nw)
			}
			wake(e.Object, q)
		},
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
func (r *Reconciler) watchNodes() handler.EventHandler {
	wake := func(ctx context.Context, q requestQueue, concerns func(placement.Placer) bool) {
		list := &v1alpha1.ManagedWorkloadList{}
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to list ManagedWorkloads for a changed node")
			return
		}
		for i := range list.Items {
			mw := &list.Items[i]
			if concerns(r.placerOf(mw)) {
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
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.NodeWorkload{}, indexController, indexByController); err != nil {
		return fmt.Errorf("index the NodeWorkloads of the cache by owner: %w", err)
	}
	log := mgr.GetLogger()
	err := ctrl.NewControllerManagedBy(mgr).Named("managedworkload").
		For(&v1alpha1.ManagedWorkload{}, builder.WithPredicates(contain.Updates(log, workloadChanged()))).
		Watches(&v1alpha1.NodeWorkload{}, contain.Handler{EventHandler: r.watchNodeWorkloads()}).
		Watches(&corev1.Node{}, contain.Handler{EventHandler: r.watchNodes()}, builder.WithPredicates(contain.Updates(log, nodeChanged()))).
		Watches(&corev1.Namespace{}, contain.Handler{EventHandler: r.watchNamespaces()}, builder.WithPredicates(contain.Updates(log, securityChanged()))).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add the controller of ManagedWorkloads: %w", err)
	}
	return nil
}
