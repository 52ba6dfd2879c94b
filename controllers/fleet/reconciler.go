// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Who asked for the end of a NodeWorkload, as its kill records name it.
const (
	byWorkloadGone = "manager (ManagedWorkload gone)"
	byNodeLost     = "manager (node lost)"
	byNeverStarted = "manager (no shim ever took it)"
)

// eventReleased is the reason of the event about a NodeWorkload that was given up.
const eventReleased = "Released"

// changeQPS and changeBurst bound the changes of the condition ShimResponding, per
// second: when a part of the fleet comes or goes at once, other writes are not held up.
const changeQPS, changeBurst = 50, 100

// changeRetry is when a change above that bound is tried again, or twice as much later.
const changeRetry = 2 * time.Second

// expirySlack is added to timers, so that what they wait for is over by then.
const expirySlack = 50 * time.Millisecond

// +kubebuilder:rbac:groups=managedworkload.dev,resources=nodeworkloads,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=managedworkload.dev,resources=nodeworkloads/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// Reconciler says of every NodeWorkload whether its shim responds,
// and gives up those that no shim can end any more.
type Reconciler struct {
	client client.Client
	// live reads past the cache, where a decision cannot be taken back.
	live         client.Reader
	index        *Index
	recorder     record.EventRecorder
	shims        *Shims
	releaseAfter time.Duration
	// changes bounds how often the condition of a NodeWorkload that has one is changed.
	changes flowcontrol.PassiveRateLimiter

	mu sync.Mutex
	// lost is since when the Node and the shim of a NodeWorkload are both seen to
	// be gone. It is not kept over a restart: then the time starts again.
	lost map[types.NamespacedName]loss
}

// NewReconciler returns a reconciler that finds NodeWorkloads in index, reads the rest
// through c, and through live where a decision cannot be taken back. NodeWorkloads of a
// Node that is gone are given up after releaseAfter.
func NewReconciler(c client.Client, live client.Reader, index *Index, recorder record.EventRecorder, shims *Shims, releaseAfter time.Duration) *Reconciler {
	return &Reconciler{
		client: c, live: live, index: index, recorder: recorder, shims: shims, releaseAfter: releaseAfter, lost: map[types.NamespacedName]loss{},
		changes: flowcontrol.NewTokenBucketPassiveRateLimiter(changeQPS, changeBurst),
	}
}

type loss struct {
	uid   types.UID
	since time.Time
}

// Reconcile looks at one NodeWorkload, its Node and its shim's Lease.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	share := r.index.Get(req.NamespacedName)
	if share == nil {
		r.found(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	now := time.Now()
	shim := r.shims.Of(share.Node, now)
	var requeue time.Duration
	if !shim.Judged() { // where it is, the end of the Lease wakes its NodeWorkloads
		requeue = shim.Expires.Sub(now) + expirySlack
	}
	later, err := r.reconcileShimResponding(ctx, share, shim)
	if errOwner := r.reconcileOwner(ctx, share); errOwner != nil {
		err = errors.Join(err, errOwner)
	}
	wait, releaseErr := r.reconcileRelease(ctx, share, shim, now)
	if wait > 0 {
		requeue = wait + expirySlack
	}
	if later > 0 && (requeue == 0 || later < requeue) {
		requeue = later
	}
	return writes.Result(ctx, requeue, errors.Join(err, releaseErr))
}

// reconcileShimResponding writes the one condition that is the manager's, and never undoes
// what the shim wrote. later is when it is to be tried again; 0 when nothing is left to do.
func (r *Reconciler) reconcileShimResponding(ctx context.Context, share *Share, shim ShimState) (later time.Duration, err error) {
	if !shim.Judged() {
		return 0, nil
	}
	status := metav1.ConditionFalse
	if shim.Responding() {
		status = metav1.ConditionTrue
	}
	known := share.Shim
	if known != nil && known.Status == status && known.Reason == shim.Reason && known.Message == shim.Message {
		return 0, nil
	}
	if known != nil && !r.changes.TryAccept() {
		return utilwait.Jitter(changeRetry, 1), nil
	}
	condition := metav1.Condition{
		Type:               v1alpha1.ConditionShimResponding,
		Status:             status,
		ObservedGeneration: share.Generation,
		LastTransitionTime: metav1.Now(),
		Reason:             shim.Reason,
		Message:            shim.Message,
	}
	if known != nil && known.Status == status {
		condition.LastTransitionTime = known.LastTransitionTime
	}
	if _, err := share.shimEdit(condition).ApplyStatus(ctx, r.client); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("write the condition %s: %w", v1alpha1.ConditionShimResponding, err)
	}
	return 0, nil
}

// reconcileOwner ends a NodeWorkload whose ManagedWorkload is gone, as a garbage
// collector would: there may be none in the cluster.
func (r *Reconciler) reconcileOwner(ctx context.Context, share *Share) error {
	if share.Workload() == "" || share.Deleting() {
		return nil
	}
	owner := types.NamespacedName{Namespace: share.Namespace, Name: share.Controller.Name}
	for _, reader := range []client.Reader{r.client, r.live} {
		mw := &v1alpha1.ManagedWorkload{} // only read
		err := reader.Get(ctx, owner, mw, client.UnsafeDisableDeepCopy)
		if err == nil && mw.UID == share.Workload() {
			return nil
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get the owner of NodeWorkload: %w", err)
		}
	}
	share, err := RequestEnd(ctx, r.client, share, nil, byWorkloadGone)
	if err != nil {
		return err
	}
	if err := r.client.Delete(ctx, share.Object(), share.AsSeen()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete NodeWorkload without an owner: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("Deleted NodeWorkload without an owner", "owner", owner.Name)
	return nil
}

// reconcileRelease gives a NodeWorkload up when no shim can end it. wait is the
// time until that is to be looked at again, 0 for never.
func (r *Reconciler) reconcileRelease(ctx context.Context, share *Share, shim ShimState, now time.Time) (wait time.Duration, err error) {
	if shim.Responding() || !shim.Judged() {
		r.found(share.Key())
		return 0, nil
	}
	if neverStarted(share, shim) {
		return 0, r.release(ctx, share, byNeverStarted)
	}
	gone, err := nodeGone(ctx, r.client, share.Node)
	if err != nil {
		return 0, err
	}
	if !gone {
		r.found(share.Key())
		return 0, nil
	}
	if left := r.lostSince(share, now).Add(r.releaseAfter).Sub(now); left > 0 {
		return left, nil
	}
	return 0, r.release(ctx, share, byNodeLost)
}

// neverStarted reports whether a NodeWorkload that is being deleted was never seen
// by a shim: there are no containers to wait for.
func neverStarted(share *Share, shim ShimState) bool {
	return share.Deleting() && shim.Reason == v1alpha1.ReasonShimNotFound && !share.Observed() && !share.Killed && share.Phase == ""
}

// release looks at everything once more past the cache, then deletes the
// NodeWorkload and removes its finalizer. A shim's write in between keeps it.
func (r *Reconciler) release(ctx context.Context, share *Share, by string) error {
	shim, err := r.shims.State(ctx, r.live, share.Node, time.Now())
	if err != nil || shim.Responding() || !shim.Judged() || by == byNeverStarted && !neverStarted(share, shim) {
		return err
	}
	if by == byNodeLost {
		if gone, err := nodeGone(ctx, r.live, share.Node); err != nil || !gone {
			return err
		}
	}
	share, err = RequestEnd(ctx, r.client, share, nil, by)
	if err != nil {
		return err
	}
	if !share.Deleting() {
		if err := r.client.Delete(ctx, share.Object(), share.AsSeen()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete NodeWorkload that is released: %w", err)
		}
		return nil // the deletion brings us back here
	}
	edit := share.Edit()
	if !share.DropFinalizer(edit) {
		return nil
	}
	if _, err := edit.Apply(ctx, r.client); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release NodeWorkload: %w", err)
	}
	releasedTotal.Inc()
	r.recorder.Eventf(share.Object(), corev1.EventTypeWarning, eventReleased, "Released although node %s did not confirm the end of the containers: %s", share.Node, by)
	logr.FromContextOrDiscard(ctx).Info("Released NodeWorkload", "node", share.Node, "requestedBy", by)
	return nil
}

func (r *Reconciler) lostSince(share *Share, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := share.Key()
	known, ok := r.lost[key]
	if !ok || known.uid != share.UID {
		known = loss{uid: share.UID, since: now}
		r.lost[key] = known
	}
	return known.since
}

func (r *Reconciler) found(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lost, key)
}

// nodeGone reports whether reader knows no Node of that name.
func nodeGone(ctx context.Context, reader client.Reader, name string) (bool, error) {
	err := reader.Get(ctx, types.NamespacedName{Name: name}, &corev1.Node{}, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get node %q: %w", name, err)
	}
	return err != nil, nil
}
