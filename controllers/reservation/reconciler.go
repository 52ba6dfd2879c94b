// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"errors"
	"time"

	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// timing are the times that tests shorten.
type timing struct {
	// settle is how long further changes of a node are waited for.
	settle time.Duration
	// spacing is the time between two resizes of a Pod at least.
	spacing time.Duration
	// patience is how long a Pod or an answer may be missing before that is said: as long as a
	// Pod takes to be replaced.
	patience time.Duration
	// refusal is when a resize that was refused is tried again.
	refusal time.Duration
	// reword is how often the words of conditions change that say the same otherwise.
	reword time.Duration
}

var usual = timing{
	settle: time.Second, spacing: 5 * time.Second, patience: time.Minute, refusal: 5 * time.Minute,
	reword: time.Minute,
}

// labelRegisteredBy is the label of a Node whose shim registered it.
const labelRegisteredBy = "managedworkload.dev/registered-by"

// writeQPS and writeBurst bound the conditions that are written of all nodes together, per second, and
// the resizes likewise: neither holds up the other, nor other writes. writeRetry is when one above that
// is tried again, or twice as much later.
const writeQPS, writeBurst, writeRetry = 50, 100, 2 * time.Second

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch,namespace=managedworkload-system
// +kubebuilder:rbac:groups="",resources=pods/resize,verbs=patch,namespace=managedworkload-system

// Reconciler keeps what is reserved on each node, and says of its NodeWorkloads whether they have
// it.
type Reconciler struct {
	client    client.Client
	index     *fleet.Index
	nodes     *fleet.Nodes
	pods      *Pods // nil: nothing is reserved
	namespace string
	// writes bounds conditions, resizes resizes.
	writes, resizes flowcontrol.PassiveRateLimiter
	memos           *memos
	timing          timing
}

// NewReconciler returns a reconciler of the Pods in a namespace. Where pods is nil it only removes
// the conditions that another manager wrote.
func NewReconciler(c client.Client, index *fleet.Index, nodes *fleet.Nodes, pods *Pods, namespace string) *Reconciler {
	return &Reconciler{
		client: c, index: index, nodes: nodes, pods: pods, namespace: namespace,
		writes:  flowcontrol.NewTokenBucketPassiveRateLimiter(writeQPS, writeBurst),
		resizes: flowcontrol.NewTokenBucketPassiveRateLimiter(writeQPS, writeBurst),
		memos:   newMemos(), timing: usual,
	}
}

// Reconcile looks at one node: its name is that of the request.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.pods != nil && !r.pods.Synced() {
		return ctrl.Result{RequeueAfter: r.timing.spacing}, nil
	}
	var next earliest
	now := time.Now()
	f := r.gather(req.Name, now, &next)
	if len(f.shares) == 0 && f.pod == nil {
		r.memos.forget(req.Name)
		return ctrl.Result{}, nil
	}
	d := decide(f)
	err := errors.Join(r.resize(ctx, f.pod, d.want, now, &next), r.say(ctx, req.Name, f.shares, d, now, &next))
	return writes.Result(ctx, next.after, err)
}

// gather is what is known of a node.
func (r *Reconciler) gather(node string, now time.Time, next *earliest) facts {
	f := facts{shares: r.index.SharesOn(node)}
	if r.pods == nil {
		f.late = true
		return f
	}
	f.pod, f.used = r.pods.On(node)
	if n := r.nodes.Get(node); n != nil {
		f.used = f.used && n.Labels[labelRegisteredBy] != "shim" // no kubelet runs Pods there
		f.allocatable = fleet.AmountIn(n.Status.Allocatable)
	}
	known := r.memos.of(node)
	f.now, f.retries = now, known.retries
	f.refused = known.refusalOf(f.pod, decide(f).want)
	f.retries = f.learn()
	r.memos.change(node, func(m *memo) { m.retries = f.retries })
	next.at(f.retries.next(now), now)
	want := decide(f).want
	f.refused = known.refusalOf(f.pod, want)
	if f.pod != nil && f.pod.Answered && f.pod.Asked == want || f.refused != "" {
		r.memos.change(node, func(m *memo) { m.silent = time.Time{} })
		return f
	}
	if known.silent.IsZero() {
		known.silent = now
		r.memos.change(node, func(m *memo) { m.silent = now })
	}
	f.late = now.Sub(known.silent) >= r.timing.patience
	if !f.late {
		next.in(known.silent.Add(r.timing.patience).Sub(now))
	}
	return f
}

// accept reports whether another write is within its bounds, and when it is tried again if not.
func accept(bound flowcontrol.PassiveRateLimiter, next *earliest) bool {
	if bound.TryAccept() {
		return true
	}
	next.in(utilwait.Jitter(writeRetry, 1))
	return false
}

// earliest is when something is to be looked at again first; zero: not.
type earliest struct{ after time.Duration }

func (e *earliest) in(d time.Duration) {
	d = max(d, time.Millisecond)
	if e.after == 0 || d < e.after {
		e.after = d
	}
}

// at is as in; a time of zero is never.
func (e *earliest) at(t, now time.Time) {
	if !t.IsZero() {
		e.in(t.Sub(now))
	}
}
