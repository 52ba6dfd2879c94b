// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// reconciler hands NodeWorkloads to their workers. It never waits for them.
type reconciler struct {
	reader client.Reader
	node   string
	pool   *podworker.Pool
	// vanished is called when an object is gone: its worker may not know.
	vanished func()
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	nw := &v1alpha1.NodeWorkload{}
	err := r.reader.Get(ctx, req.NamespacedName, nw)
	switch {
	case apierrors.IsNotFound(err):
		r.vanished()
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get NodeWorkload: %w", err)
	case nw.Spec.NodeName != r.node:
		return ctrl.Result{}, nil
	}
	r.pool.Update(nw) //nolint:contextcheck // a worker outlives this call
	if r.pool.Superseded(podworker.Identity{UID: nw.UID, Namespace: nw.Namespace, Name: nw.Name}) {
		r.vanished()
	}
	return ctrl.Result{}, nil
}

// setup makes the controller.
func (r *reconciler) setup(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("nodeworkload").
		For(&v1alpha1.NodeWorkload{}).
		WithEventFilter(specChanged()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	return nil
}

// specChanged leaves out what the shim's own status updates cause.
func specChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return before.GetUID() != after.GetUID() ||
				before.GetGeneration() != after.GetGeneration() ||
				(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
				before.GetAnnotations()[v1alpha1.AnnotationRequestedBy] != after.GetAnnotations()[v1alpha1.AnnotationRequestedBy] ||
				before.GetResourceVersion() == after.GetResourceVersion()
		},
	}
}
