// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/quota"
	"github.com/managedworkload/managedworkload/controllers/rollout"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloads,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloads/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloads/finalizers,verbs=update
// +kubebuilder:rbac:groups=managedworkload.dev,resources=nodeworkloads,verbs=get;list;watch;create;update;patch;delete;manage
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloadrevisions,verbs=get;list;watch;create;delete;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces;resourcequotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=managedworkload-system,resources=leases,verbs=get;list;watch;create;update;patch

// Reconciler keeps one NodeWorkload on every node that a
// ManagedWorkload's template admits, and its status true.
type Reconciler struct {
	client client.Client
	// live reads past the cache, where a decision cannot be taken back.
	live          client.Reader
	recorder      record.EventRecorder
	fleet         Fleet
	admission     *admission.Judge
	killsInterval time.Duration
	memories      memories
	// quotas knows what NodeWorkloads were promised of quotas.
	quotas *quota.Ledger
	// queue is that of its controller, nil without one.
	queue requestQueue
}

// Fleet is what is remembered of NodeWorkloads, Nodes and shims.
type Fleet struct {
	Shares *fleet.Index
	Nodes  *fleet.Nodes
	Shims  *fleet.Shims
	Kills  *fleet.Ledger
	// Objects knows what nodes can get of what templates refer to, nil where nothing serves it.
	Objects Objects
}

// NewReconciler returns a reconciler that looks at the fleet, reads the rest through c, and
// through live where a decision cannot be taken back. recentKills are written at most once
// in killsInterval.
func NewReconciler(c client.Client, live client.Reader, recorder record.EventRecorder, f Fleet, judge *admission.Judge, killsInterval time.Duration) *Reconciler {
	return &Reconciler{
		client: c, live: live, recorder: recorder, fleet: f, admission: judge, killsInterval: killsInterval,
		quotas: quota.NewLedger(f.Shares),
	}
}

// scope is one reconciliation: what was read, and what came of it.
type scope struct {
	mw *v1alpha1.ManagedWorkload
	// before is the status as it was read.
	before v1alpha1.ManagedWorkloadStatus
	memory memory
	now    time.Time
	// template is that of mw with its defaults, and hash identifies it. admitted is what
	// admission made of it, nil as long as it is not accepted.
	template corev1.PodTemplateSpec
	hash     string
	admitted *corev1.PodTemplateSpec
	// revisions are those that mw controls, revision that of template, and foreign those
	// whose template was changed by hand.
	revisions []*v1alpha1.ManagedWorkloadRevision
	revision  *v1alpha1.ManagedWorkloadRevision
	foreign   []*v1alpha1.ManagedWorkloadRevision
	// answer is what admission would make of the admitted template now.
	answer admission.Answer
	// objects are those that the admitted template refers to, nil before they were asked for.
	objects *objectsAsked
	// held is how many nodes do not get their template for an answer of admission.
	held int
	// room is what quotas have for this reconciliation's changes, nil where none was asked,
	// and overQuota why there is none for a change.
	room      *quota.Room
	overQuota quota.Refusal
	// left is how many NodeWorkloads wait for the next reconciliation to be repaired.
	left int
	// editions are what revisions run, by revision, nil before the verdict.
	editions map[string]*edition
	// hashes are those of editions, nil before they were asked for.
	hashes *rollout.Templates
	// current is the current revision, "" before it was asked for.
	current string
	// frozen: no node is changed, because there is no revision of the template.
	frozen bool
	// rolling is the roll-out, nil before it was looked at.
	rolling *rolling
	// turn is the look at the nodes that the roll-out changes, in a turn.
	turn   fleet.Turn
	placer placement.Placer
	nodes  []*corev1.Node
	// placements are those of nodes, in their order, nil before they were asked for.
	placements []placement.Placement
	// stays are nodes on which only a pause keeps what runs.
	stays map[string]bool
	// shares are the NodeWorkloads that mw controls, by node.
	shares map[string]*fleet.Share
	// surplus are further ones on a node that has one.
	surplus []*fleet.Share
	// inTheWay are NodeWorkloads with the name of ours that are not ours, by node.
	inTheWay map[string]*fleet.Share
	verdict  admission.Verdict
	// wanted is what the NodeWorkloads of mw should have.
	wanted *wanted
	// confirmed is the answer of confirm, nil until it was asked, unconfirmed that the object
	// has changed, and changedBy who changed the template last, as far as that is known.
	confirmed   *bool
	unconfirmed error
	changedBy   string
	// grace is what the annotation for a deletion asks for, in seconds, nil for nothing,
	// and graceProblem what is wrong with it.
	grace        *int64
	graceProblem string
	// finished: nothing keeps the object any more but these finalizers.
	finished   bool
	finalizers []string
	requeue    time.Duration
	// more: a batch was full, and the next reconciliation does the rest.
	more bool
}

// wakeAfter asks for another look after d; the soonest wins, 0 asks for none.
func (s *scope) wakeAfter(d time.Duration) {
	if d > 0 && (s.requeue == 0 || d < s.requeue) {
		s.requeue = d
	}
}

// Reconcile gathers, acts, and writes the status once, whatever came of it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mw, err := r.read(ctx, req.NamespacedName)
	switch {
	case errors.Is(err, errNotSeen):
		return ctrl.Result{RequeueAfter: seenRetry}, nil
	case apierrors.IsNotFound(err):
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get ManagedWorkload: %w", err)
	}
	if !mw.DeletionTimestamp.IsZero() && !keptForUs(mw) {
		return ctrl.Result{}, nil // a finalizer of another controller keeps it
	}
	if earlier := r.memories.forgetEarlier(mw); earlier != "" {
		r.forgetUID(req.NamespacedName, earlier, mw.UID)
	}
	known := r.memories.of(mw)
	// The end of an object makes nothing, and need not wait.
	if mw.DeletionTimestamp.IsZero() && r.behind(&known.wrote, time.Now()) {
		return ctrl.Result{RequeueAfter: seenRetry}, nil
	}
	s, err := r.gather(ctx, mw, known)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = r.act(ctx, s)
	err = errors.Join(err, r.finish(ctx, s, err == nil))
	r.memories.keepWritten(mw, s.memory)
	if err != nil {
		r.keepWake(req, s.requeue)
	} else if s.more {
		s.wakeAfter(nextBatch)
	}
	return writes.Result(ctx, s.requeue, err)
}

// nextBatch is when the rest of what was too much for one reconciliation is done.
const nextBatch = 100 * time.Millisecond

// minKeptWake keeps an error from being retried at once again and again.
const minKeptWake = time.Second

// keepWake asks for the look that a failed reconciliation needs at a time. The back-off for
// its error, which drops what it asked for, may be longer; the earlier one of both counts.
func (r *Reconciler) keepWake(req ctrl.Request, after time.Duration) {
	if r.queue != nil && after > 0 {
		r.queue.AddAfter(req, max(after, minKeptWake))
	}
}

// act changes NodeWorkloads.
func (r *Reconciler) act(ctx context.Context, s *scope) error {
	if !s.mw.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}
	if err := r.reconcileFinalizer(ctx, s); err != nil {
		return err
	}
	if err := r.reconcileVerdict(ctx, s); err != nil || !s.verdict.Accepted {
		if r.fleet.Shares.RollOut(s.mw.UID) == nil {
			r.fleet.Shares.NoteRollOut(s.mw.UID, &fleet.RollOut{}) // it stays where it is
		}
		return err
	}
	ready, err := r.reconcileRevision(ctx, s)
	s.frozen = !ready
	err = errors.Join(err, r.reconcileAdoption(ctx, s), r.reconcileNodes(ctx, s))
	r.gatherObjects(ctx, s) // last: no node waits for the answer
	return err
}

// finish writes the status and lets a deleted object go, in this order: the last
// kills are reported while it still exists.
func (r *Reconciler) finish(ctx context.Context, s *scope, acted bool) error {
	if err := r.reconcileStatus(ctx, s); err != nil {
		return err
	}
	if !acted || !s.finished {
		return nil
	}
	if err := r.deleteRevisions(ctx, s); err != nil {
		return err
	}
	return r.removeFinalizers(ctx, s)
}

// gather reads all facts but the verdict on the template.
func (r *Reconciler) gather(ctx context.Context, mw *v1alpha1.ManagedWorkload, known memory) (*scope, error) {
	s := &scope{
		mw:       mw,
		before:   *mw.Status.DeepCopy(),
		memory:   known,
		now:      time.Now(),
		template: *mw.Spec.Template.DeepCopy(),
		placer:   placement.New(&mw.Spec.Template),
		nodes:    r.fleet.Nodes.All(),
		inTheWay: map[string]*fleet.Share{},
	}
	s.grace, s.graceProblem = admission.DeletionGrace(mw.Annotations)
	template.SetDefaults(&s.template)
	s.hash = template.Hash(&s.template)
	s.wanted = wantedOf(mw, s.memory.imposed)
	s.turn = r.fleet.Shares.Turn(mw.UID, s.now)
	shares, err := r.sharesOf(ctx, s)
	if err != nil {
		return nil, err
	}
	s.shares = make(map[string]*fleet.Share, len(shares))
	for _, share := range shares {
		s.take(share)
	}
	return s, r.gatherRevisions(ctx, s)
}

func (r *Reconciler) reconcileFinalizer(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.mw, v1alpha1.Finalizer) {
		return nil
	}
	base := s.mw.DeepCopy()
	controllerutil.AddFinalizer(s.mw, v1alpha1.Finalizer)
	if err := r.client.Patch(ctx, s.mw, writes.Locked(base)); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	s.memory.wroteSelf.note(s.mw.ResourceVersion, s.now)
	return nil
}

// reconcileVerdict decides whether the template is accepted.
func (r *Reconciler) reconcileVerdict(ctx context.Context, s *scope) error {
	placed := func() (*corev1.PodTemplateSpec, error) { return r.placed(ctx, s) }
	v, err := r.admission.Verdict(ctx, admission.Question{Workload: s.mw, Template: &s.template, Placed: placed, Now: s.now})
	if err != nil {
		s.verdict = admission.Verdict{Undecided: true, Reason: reasonAdmissionPending, Message: err.Error()}
		return err
	}
	s.verdict = v
	if v.Accepted {
		s.admitted = v.Admitted
		s.readEditions()
		s.placeBy(s.admitted)
		s.memory.placer = new(s.placer)
	}
	if !v.Recheck.IsZero() {
		s.wakeAfter(max(v.Recheck.Sub(s.now), time.Second))
	}
	return nil
}

// confirm asks past the cache, once, whether the object exists and is not being
// deleted: what is created, adopted or restarted for it after that would only be killed.
// An object that was changed since it was read is a conflict: another manager may carry the
// change out already, and what this one would write would take it back.
func (r *Reconciler) confirm(ctx context.Context, s *scope) (bool, error) {
	if s.confirmed == nil && s.unconfirmed == nil {
		current := &v1alpha1.ManagedWorkload{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(s.mw), current)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get ManagedWorkload past the cache: %w", err)
		}
		wanted := err == nil && current.UID == s.mw.UID && current.DeletionTimestamp.IsZero()
		if wanted && current.Generation != s.mw.Generation {
			s.unconfirmed = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("managedworkloads").GroupResource(), s.mw.Name,
				errors.New("it has changed since it was read"))
			return false, s.unconfirmed
		}
		s.confirmed = &wanted
		s.changedBy = writes.LastWriter(current.ManagedFields, "spec")
	}
	if s.unconfirmed != nil {
		return false, s.unconfirmed
	}
	return *s.confirmed, nil
}

// forget drops what is remembered of an object that is gone.
func (r *Reconciler) forget(name types.NamespacedName) {
	dropWorkloadMetrics(name)
	r.admission.Forget(name)
	r.quotas.Wait(name, false)
	r.forgetUID(name, r.memories.forget(name), "")
}

// forgetUID drops what is remembered of an object by its UID; there is that of one which has its name now.
func (r *Reconciler) forgetUID(name types.NamespacedName, gone, there types.UID) {
	r.fleet.Kills.Forget(name, there)
	r.fleet.Shares.NoteRollOut(gone, nil)
}
