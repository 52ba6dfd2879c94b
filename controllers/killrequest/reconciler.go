// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// +kubebuilder:rbac:groups=managedworkload.dev,resources=killrequests,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=managedworkload.dev,resources=killrequests/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloads,verbs=get;list;watch
// +kubebuilder:rbac:groups=managedworkload.dev,resources=nodeworkloads,verbs=get;list;watch;patch

// Reconciler hands KillRequests to the nodes that they are about, and sums up what came of
// them.
type Reconciler struct {
	client   client.Client
	recorder record.EventRecorder
	fleet    Fleet
}

// Fleet is what is remembered of NodeWorkloads, Nodes and shims.
type Fleet struct {
	Shares *fleet.Index
	Nodes  *fleet.Nodes
	Shims  *fleet.Shims
}

// NewReconciler returns a reconciler that looks at the fleet, and reads and writes the rest
// through c.
func NewReconciler(c client.Client, recorder record.EventRecorder, f Fleet) *Reconciler {
	return &Reconciler{client: c, recorder: recorder, fleet: f}
}

// turnRetry is when to look again while nodes wait for their turn: what they wait for may not
// wake the request.
const turnRetry = 2 * time.Second

// Reconcile looks at one request.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	kr := &v1alpha1.KillRequest{}
	err := r.client.Get(ctx, req.NamespacedName, kr)
	switch {
	case apierrors.IsNotFound(err):
		return writes.Result(ctx, 0, r.release(ctx, req.NamespacedName, ""))
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get KillRequest: %w", err)
	case !kr.DeletionTimestamp.IsZero():
		return writes.Result(ctx, 0, r.release(ctx, req.NamespacedName, ""))
	}
	var after time.Duration
	if kr.Status.CompletionTime == nil {
		if after, err = r.reconcile(ctx, kr); err != nil {
			return writes.Result(ctx, 0, err)
		}
	}
	keeps := kr.UID // what an earlier request of that name left behind is taken away
	if kr.Status.CompletionTime != nil {
		keeps = ""
		after, err = r.expire(ctx, kr)
	}
	return writes.Result(ctx, after, errors.Join(r.release(ctx, req.NamespacedName, keeps), err))
}

// reconcile hands the request to the next nodes, and writes its status.
func (r *Reconciler) reconcile(ctx context.Context, kr *v1alpha1.KillRequest) (after time.Duration, err error) {
	f, err := r.gather(ctx, kr)
	if err != nil {
		return 0, err
	}
	targets, err := f.targets()
	if err != nil {
		return 0, r.writeStatus(ctx, kr, f.over(err.Error()))
	}
	begin := f.next(targets)
	// Only the status makes the end of a request known: it is written before a node forgets it.
	if err := r.writeStatus(ctx, kr, f.status(targets)); err != nil {
		return 0, err
	}
	var errs []error
	for _, i := range begin {
		if err := r.enter(ctx, f, &targets[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return f.wake(targets, len(begin)), errors.Join(errs...)
}

// enter hands the request to a node.
func (r *Reconciler) enter(ctx context.Context, f *facts, t *target) error {
	edit := t.share.Edit()
	edit.Set(append(slices.Clone(t.share.RequestList()), f.entry(t)), "spec", "requests")
	if _, err := edit.Apply(ctx, r.client); err != nil {
		return fmt.Errorf("hand KillRequest %q to node %q: %w", f.kr.Name, t.node, err)
	}
	return nil
}

// release takes the requests of a name, but for that of a UID, from all nodes that have them.
// Containers that were stopped for them are started again.
func (r *Reconciler) release(ctx context.Context, name types.NamespacedName, but types.UID) error {
	var errs []error
	for _, share := range r.fleet.Shares.WithRequest(name) {
		stale := func(n v1alpha1.NodeRequest) bool { return n.Name == name.Name && n.ID != string(but) }
		left := slices.DeleteFunc(slices.Clone(share.RequestList()), stale)
		if len(left) == len(share.RequestList()) {
			continue
		}
		edit := share.Edit()
		if len(left) == 0 {
			edit.Remove("spec", "requests")
		} else {
			edit.Set(left, "spec", "requests")
		}
		if _, err := edit.Apply(ctx, r.client); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("take KillRequest %q from node %q: %w", name.Name, share.Node, err))
		}
	}
	return errors.Join(errs...)
}

// writeStatus writes a status that differs, and then says that the request is over.
func (r *Reconciler) writeStatus(ctx context.Context, kr *v1alpha1.KillRequest, st v1alpha1.KillRequestStatus) error {
	if equality.Semantic.DeepEqual(kr.Status, st) {
		return nil
	}
	base := kr.DeepCopy()
	kr.Status = st
	if err := r.client.Status().Patch(ctx, kr, writes.Locked(base)); err != nil {
		return fmt.Errorf("write the status of KillRequest %q: %w", kr.Name, err)
	}
	if st.CompletionTime != nil || st.Phase == v1alpha1.RequestHeld && base.Status.Phase != st.Phase {
		kind := corev1.EventTypeNormal
		if st.Phase == v1alpha1.RequestFailed {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Event(kr, kind, string(st.Phase), st.Message)
	}
	return nil
}

// expire deletes a request that has been over for long enough, and says when it will be.
func (r *Reconciler) expire(ctx context.Context, kr *v1alpha1.KillRequest) (after time.Duration, err error) {
	if kr.Spec.TTLSecondsAfterFinished == nil {
		return 0, nil
	}
	left := time.Until(kr.Status.CompletionTime.Add(time.Duration(*kr.Spec.TTLSecondsAfterFinished) * time.Second))
	if left > 0 {
		return left, nil
	}
	err = r.client.Delete(ctx, kr, client.Preconditions{UID: &kr.UID})
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("delete KillRequest %q: %w", kr.Name, err)
	}
	return 0, nil
}
