// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// +kubebuilder:rbac:groups=managedworkload.dev,resources=nodeworkloads,verbs=get;create;delete

// Reconciler answers the reports in the Leases of shims.
type Reconciler struct {
	// client reads Leases from the cache, live reads NodeWorkloads from the API server.
	client client.Client
	live   client.Reader
}

// NewReconciler returns a reconciler.
func NewReconciler(c client.Client, live client.Reader) *Reconciler {
	return &Reconciler{client: c, live: live}
}

// SetUp adds it to a manager.
func (r *Reconciler) SetUp(mgr manager.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("static-mirrors").
		For(&coordinationv1.Lease{}, builder.WithPredicates(predicate.NewPredicateFuncs(reports))).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of mirrors: %w", err)
	}
	return nil
}

// reports is whether a Lease has a report. It is asked in the informer's goroutine.
func reports(o client.Object) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationStaticMirrors] != "" && strings.HasPrefix(o.GetName(), v1alpha1.LeaseNamePrefix)
}

// Reconcile makes and deletes what a shim asks for. Each renewal of a Lease asks again.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lease := &coordinationv1.Lease{}
	if err := r.client.Get(ctx, req.NamespacedName, lease); err != nil || !reports(lease) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	node := strings.TrimPrefix(lease.Name, v1alpha1.LeaseNamePrefix)
	report, err := mirror.Decode(lease.Annotations[v1alpha1.AnnotationStaticMirrors])
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("The report of a shim about its static workloads cannot be read", "node", node, "reason", err.Error())
		return ctrl.Result{}, nil
	}
	var errs []error
	for _, gone := range report.Delete {
		errs = append(errs, r.delete(ctx, node, gone))
	}
	for _, w := range report.Create {
		errs = append(errs, r.create(ctx, node, w))
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// create makes a mirror. A name that is taken, or a namespace that is not there, leaves the
// workload without one: it runs nevertheless.
func (r *Reconciler) create(ctx context.Context, node string, w mirror.Workload) error {
	err := r.client.Create(ctx, w.Object(node))
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).Info("A static workload has no mirror", "node", node, "workload", w.Namespace+"/"+w.Name, "reason", err.Error())
		return nil
	}
	return fmt.Errorf("create the mirror of %s/%s: %w", w.Namespace, w.Name, err)
}

// delete deletes a mirror of a node, and nothing else.
func (r *Reconciler) delete(ctx context.Context, node string, m mirror.Mirror) error {
	nw := &v1alpha1.NodeWorkload{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Name}, nw)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get the mirror %s/%s: %w", m.Namespace, m.Name, err)
	case nw.UID != m.UID, nw.Spec.NodeName != node, !mirror.Is(nw):
		return nil
	}
	err = r.client.Delete(ctx, nw, client.Preconditions(metav1.Preconditions{UID: &nw.UID}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the mirror %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}
