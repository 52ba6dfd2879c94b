// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	live     client.Reader
	recorder record.EventRecorder
	fleet    Fleet
	stops    stops
	silences silences
}

// Fleet is what is remembered of NodeWorkloads, Nodes and shims.
type Fleet struct {
	Shares *fleet.Index
	Nodes  *fleet.Nodes
	Shims  *fleet.Shims
}

// NewReconciler returns a reconciler that looks at the fleet, reads and writes the rest
// through c, and reads through live what cannot be taken back if it is wrong.
func NewReconciler(c client.Client, live client.Reader, recorder record.EventRecorder, f Fleet) *Reconciler {
	return &Reconciler{client: c, live: live, recorder: recorder, fleet: f}
}

// Reconcile looks at one request.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	kr := &v1alpha1.KillRequest{}
	err := r.client.Get(ctx, req.NamespacedName, kr)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(req.NamespacedName)
		return writes.Result(ctx, 0, r.release(ctx, req.NamespacedName, ""))
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get KillRequest: %w", err)
	case !kr.DeletionTimestamp.IsZero():
		r.forget(req.NamespacedName)
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
		r.forget(req.NamespacedName)
		after, err = r.expire(ctx, kr)
	}
	return writes.Result(ctx, after, errors.Join(r.release(ctx, req.NamespacedName, keeps), err))
}

// forget drops what is remembered of a request that is over.
func (r *Reconciler) forget(request client.ObjectKey) {
	r.stops.note(request, "")
	r.silences.note(request, nil)
}

// reconcile hands the request to the next nodes, and writes its status.
func (r *Reconciler) reconcile(ctx context.Context, kr *v1alpha1.KillRequest) (after time.Duration, err error) {
	key := client.ObjectKeyFromObject(kr)
	if kr.Spec.Action == v1alpha1.RequestStop { // before it is looked at what runs
		r.stops.note(key, kr.Spec.WorkloadName)
	}
	f, err := r.gather(ctx, kr)
	if err != nil {
		return 0, err
	}
	targets, err := f.targets()
	if err != nil {
		return 0, r.writeStatus(ctx, kr, f.over(err.Error()))
	}
	r.silences.note(key, f.silent(targets))
	begin := r.nextTurn(f, targets)
	after = f.wake(targets, len(begin))
	version := ""
	if f.took {
		defer func() { r.fleet.Shares.Leave(f.turn, version, time.Now()) }()
	}
	version, err = r.handOut(ctx, f, targets, begin)
	return after, err
}

// nextTurn are the positions of the nodes that get the request now. Those for which there has
// to be room in the budget of the roll-out get it in a turn.
func (r *Reconciler) nextTurn(f *facts, targets []target) []int {
	if f.mw != nil && f.kr.Spec.Order == v1alpha1.RequestRollOut && waits(targets) {
		r.budget(f)
	}
	begin := f.next(targets)
	if f.kr.Spec.Order == v1alpha1.RequestRollOut && len(begin) > 0 {
		f.took = r.fleet.Shares.Take(f.turn)
		if f.missed = !f.took; f.missed {
			return nil
		}
	}
	for _, i := range begin {
		targets[i].given = targets[i].share.UID
	}
	return begin
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
