// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// policyPause is how long the first NodeWorkload waits when the policies are not enforced.
const policyPause = time.Second

// reconciler hands NodeWorkloads to their workers. It never waits for them.
type reconciler struct {
	reader client.Reader
	node   string
	pool   *podworker.Pool
	// cluster is known before anything of it is run.
	cluster *clusterIdentity
	policy  *policyProbe
	// vanished is called when an object is gone: its worker may not know.
	vanished func()
	// handed is called when a worker has its object.
	handed func()
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
	case nw.Spec.NodeName != r.node, mirror.Is(nw):
		return ctrl.Result{}, nil
	}
	if r.cluster.current() == "" {
		return ctrl.Result{RequeueAfter: policyPause}, nil
	}
	if !r.policy.asked() && r.policy.ask(ctx, nw) != "" {
		r.vanished() // asks for a look, which forbids starts
		return ctrl.Result{RequeueAfter: policyPause}, nil
	}
	r.pool.Update(template.Of(nw)) //nolint:contextcheck // a worker outlives this call
	r.handed()
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
		WithEventFilter(matters(mgr.GetLogger())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	return nil
}

// matters leaves out what no worker needs to know, such as labels. A change of the status
// alone can be the shim's own, or that of someone who has overwritten it. It runs in the
// informer's goroutine, where a panic would end the shim: a change that it cannot judge
// matters.
func matters(log logr.Logger) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) (changed bool) {
			err := panics.Contain(log, "the filter of updates", func() error {
				changed = isNews(e)
				return nil
			})
			return changed || err != nil
		},
	}
}

func isNews(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.NodeWorkload)
	after, isToo := e.ObjectNew.(*v1alpha1.NodeWorkload)
	if !ok || !isToo {
		return true
	}
	return before.UID != after.UID ||
		before.Generation != after.Generation ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		before.Annotations[v1alpha1.AnnotationRequestedBy] != after.Annotations[v1alpha1.AnnotationRequestedBy] ||
		before.ResourceVersion == after.ResourceVersion ||
		!equality.Semantic.DeepEqual(before.Status, after.Status) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec)
}
