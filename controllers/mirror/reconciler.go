// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// +kubebuilder:rbac:groups=managedworkload.dev,resources=nodeworkloads,verbs=get;create;delete

// Reconciler answers the reports in the Leases of shims.
type Reconciler struct {
	// client reads Leases and Namespaces from the cache, live reads NodeWorkloads from the API server.
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
	index    *fleet.Index
	total    flowcontrol.PassiveRateLimiter
	memos    *memos
}

// NewReconciler returns a reconciler that counts mirrors by an index.
func NewReconciler(c client.Client, live client.Reader, recorder record.EventRecorder, index *fleet.Index) *Reconciler {
	return &Reconciler{
		client: c, live: live, recorder: recorder, index: index,
		total: flowcontrol.NewTokenBucketPassiveRateLimiter(totalQPS, totalBurst), memos: &memos{byNode: map[string]*memo{}},
	}
}

// SetUp adds it to a manager.
func (r *Reconciler) SetUp(mgr manager.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("static-mirrors").
		For(&coordinationv1.Lease{}, builder.WithPredicates(reporting)).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of mirrors: %w", err)
	}
	return nil
}

// reporting lets Leases with a report pass, and those of shims that are gone.
var reporting = predicate.Funcs{
	CreateFunc:  func(e event.CreateEvent) bool { return reports(e.Object) },
	UpdateFunc:  func(e event.UpdateEvent) bool { return reports(e.ObjectNew) },
	DeleteFunc:  func(e event.DeleteEvent) bool { return ofShim(e.Object) },
	GenericFunc: func(e event.GenericEvent) bool { return reports(e.Object) },
}

func ofShim(o client.Object) bool { return strings.HasPrefix(o.GetName(), v1alpha1.LeaseNamePrefix) }

// reports is whether a Lease has a report. It is asked in the informer's goroutine.
func reports(o client.Object) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationStaticMirrors] != "" && ofShim(o)
}

// Reconcile makes and deletes what a shim asks for. Each renewal of a Lease asks again.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lease, node := &coordinationv1.Lease{}, strings.TrimPrefix(req.Name, v1alpha1.LeaseNamePrefix)
	err := r.client.Get(ctx, req.NamespacedName, lease)
	if apierrors.IsNotFound(err) {
		r.memos.forget(node)
	}
	if err != nil || !reports(lease) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	known := r.memos.of(node)
	report, err := mirror.Decode(lease.Annotations[v1alpha1.AnnotationStaticMirrors])
	if err != nil {
		r.sayUnread(ctx, node, known, writes.Limit(err.Error(), maxReason))
		return ctrl.Result{}, nil
	}
	known.unread = ""
	if !r.index.Synced() || !r.index.Seen(known.written) && time.Since(known.writtenAt) < unseen {
		return ctrl.Result{RequeueAfter: again}, nil // or it would be counted wrongly
	}
	known.written = "" // if it was not seen, it was lost with an etcd
	return r.answer(ctx, &look{node: node, memo: known, mirrors: r.mirrorsOn(node, known)}, report)
}

// look is one look at a node.
type look struct {
	*memo
	node string
	// mirrors are those that the node has.
	mirrors map[types.UID]bool
	// held: a bound keeps something for later.
	held bool
}

// mirrorsOn are the mirrors of a node, but for those that were deleted and that the index still has as
// they were. One that it shows to end and that is there counts.
func (r *Reconciler) mirrorsOn(node string, known *memo) map[types.UID]bool {
	found, gone := map[types.UID]bool{}, map[types.UID]time.Time{}
	for _, s := range r.index.SharesOn(node) {
		if s.Labels[v1alpha1.LabelStatic] == "true" {
			found[s.UID] = true
		}
		if at, deleted := known.gone[s.UID]; deleted && !s.Deleting() && time.Since(at) < unseen {
			delete(found, s.UID)
			gone[s.UID] = at
		}
	}
	known.gone = gone
	return found
}

// answer does what a report asks for, as far as the bounds allow it.
func (r *Reconciler) answer(ctx context.Context, l *look, report mirror.Report) (ctrl.Result, error) {
	var errs []error
	for _, gone := range report.Delete {
		if r.allow(l) {
			errs = append(errs, r.delete(ctx, l, gone))
		}
	}
	before := l.refused
	l.refused = map[types.NamespacedName]refusal{}
	for _, w := range report.Create {
		key := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
		outcome, err := r.provide(ctx, l, w, before[key])
		errs = append(errs, err)
		if outcome.reason != "" {
			l.refused[key] = r.say(ctx, l, key, outcome)
		}
	}
	if l.held {
		return writes.Result(ctx, again, errors.Join(errs...))
	}
	return ctrl.Result{}, errors.Join(errs...)
}
