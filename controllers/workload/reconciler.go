// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
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
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloads,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloads/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloads/finalizers,verbs=update
// +kubebuilder:rbac:groups=managedworkload.dev,resources=nodeworkloads,verbs=get;list;watch;create;update;patch;delete;manage
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=managedworkload.dev,resources=managedworkloadrevisions,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces;resourcequotas,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=managedworkload-system,resources=leases,verbs=get;list;watch;create;update;patch

// Reconciler keeps one NodeWorkload on every node that a
// ManagedWorkload's template admits, and its status true.
type Reconciler struct {
	client client.Client
	// live reads past the cache, where a decision cannot be taken back.
	live          client.Reader
	recorder      record.EventRecorder
	shims         *fleet.Shims
	admission     *admission.Judge
	kills         *fleet.Ledger
	killsInterval time.Duration
	startedAt     time.Time
	memories      memories
}

// NewReconciler returns a reconciler that reads through c, and through live where a
// decision cannot be taken back. recentKills are written at most once in
// killsInterval.
func NewReconciler(c client.Client, live client.Reader, recorder record.EventRecorder, shims *fleet.Shims, judge *admission.Judge, killsInterval time.Duration) *Reconciler {
	return &Reconciler{
		client: c, live: live, recorder: recorder, shims: shims, admission: judge,
		kills: fleet.NewLedger(), killsInterval: killsInterval, startedAt: time.Now(),
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
	// revisions are those that mw controls, and revision that of template.
	revisions []*v1alpha1.ManagedWorkloadRevision
	revision  *v1alpha1.ManagedWorkloadRevision
	// answer is what admission would make of the admitted template now.
	answer admission.Answer
	// held is how many nodes do not get the template for it.
	held   int
	placer placement.Placer
	nodes  []corev1.Node
	// nodeWorkloads are those that mw controls, by node.
	nodeWorkloads map[string]*v1alpha1.NodeWorkload
	// surplus are further ones on a node that has one.
	surplus []*v1alpha1.NodeWorkload
	// inTheWay are NodeWorkloads with the name of ours that are not ours, by node.
	inTheWay map[string]*v1alpha1.NodeWorkload
	verdict  admission.Verdict
	// wanted is what the NodeWorkloads of mw should have.
	wanted *wanted
	// confirmed is the answer of confirm, nil until it was asked, and changedBy who
	// changed the template last, as far as that is known.
	confirmed *bool
	changedBy string
	// grace is what the annotation for a deletion asks for, in seconds, nil for nothing,
	// and graceProblem what is wrong with it.
	grace        *int64
	graceProblem string
	// finished: nothing keeps the object any more but these finalizers.
	finished   bool
	finalizers []string
	requeue    time.Duration
}

// wakeAfter asks for another look after d; the soonest wins, 0 asks for none.
func (s *scope) wakeAfter(d time.Duration) {
	if d > 0 && (s.requeue == 0 || d < s.requeue) {
		s.requeue = d
	}
}

// Reconcile gathers, acts, and writes the status once, whatever came of it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mw := &v1alpha1.ManagedWorkload{}
	if err := r.client.Get(ctx, req.NamespacedName, mw); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get ManagedWorkload: %w", err)
	}
	if !mw.DeletionTimestamp.IsZero() && !keptForUs(mw) {
		return ctrl.Result{}, nil // a finalizer of another controller keeps it
	}
	s, err := r.gather(ctx, mw)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = r.act(ctx, s)
	err = errors.Join(err, r.finish(ctx, s, err == nil))
	return writes.Result(ctx, s.requeue, err)
}

// act changes NodeWorkloads.
func (r *Reconciler) act(ctx context.Context, s *scope) error {
	if !s.mw.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}
	if err := r.reconcileFinalizer(ctx, s.mw); err != nil {
		return err
	}
	if err := r.reconcileVerdict(ctx, s); err != nil || !s.verdict.Accepted {
		return err
	}
	if err := r.reconcileRevision(ctx, s); err != nil {
		return err
	}
	return errors.Join(r.reconcileAdoption(ctx, s), r.reconcileNodes(ctx, s))
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
func (r *Reconciler) gather(ctx context.Context, mw *v1alpha1.ManagedWorkload) (*scope, error) {
	s := &scope{
		mw:            mw,
		before:        *mw.Status.DeepCopy(),
		memory:        r.memories.of(mw),
		now:           time.Now(),
		template:      *mw.Spec.Template.DeepCopy(),
		placer:        placement.New(&mw.Spec.Template),
		nodeWorkloads: map[string]*v1alpha1.NodeWorkload{},
		inTheWay:      map[string]*v1alpha1.NodeWorkload{},
	}
	s.grace, s.graceProblem = admission.DeletionGrace(mw.Annotations)
	template.SetDefaults(&s.template)
	s.hash = template.Hash(&s.template)
	s.wanted = wantedOf(mw, s.hash, s.hash, s.memory.imposed)
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	s.nodes = nodes.Items
	nodeWorkloads := &v1alpha1.NodeWorkloadList{}
	if err := r.client.List(ctx, nodeWorkloads, client.InNamespace(mw.Namespace), client.MatchingFields{indexController: string(mw.UID)}); err != nil {
		return nil, fmt.Errorf("list NodeWorkloads: %w", err)
	}
	for i := range nodeWorkloads.Items {
		s.take(&nodeWorkloads.Items[i])
	}
	return s, r.gatherRevisions(ctx, s)
}

// take adds a NodeWorkload that mw controls, whatever its name is. Of two on a node
// the one that runs stays.
func (s *scope) take(nw *v1alpha1.NodeWorkload) {
	node := nw.Spec.NodeName
	other, taken := s.nodeWorkloads[node]
	switch {
	case !taken:
		s.nodeWorkloads[node] = nw
	case other.UID == nw.UID:
	case staying(nw, other) < 0:
		s.nodeWorkloads[node] = nw
		s.surplus = append(s.surplus, other)
	default:
		s.surplus = append(s.surplus, nw)
	}
}

// staying orders two NodeWorkloads of one workload on one node, the one that stays
// first: not being deleted, taken by its shim, the older one.
func staying(a, b *v1alpha1.NodeWorkload) int {
	last := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(
		last(!a.DeletionTimestamp.IsZero())-last(!b.DeletionTimestamp.IsZero()),
		last(a.Status.ObservedGeneration < 0)-last(b.Status.ObservedGeneration < 0),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

func (r *Reconciler) reconcileFinalizer(ctx context.Context, mw *v1alpha1.ManagedWorkload) error {
	if controllerutil.ContainsFinalizer(mw, v1alpha1.Finalizer) {
		return nil
	}
	base := mw.DeepCopy()
	controllerutil.AddFinalizer(mw, v1alpha1.Finalizer)
	if err := r.client.Patch(ctx, mw, writes.Locked(base)); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

// reconcileVerdict decides whether the template is accepted.
func (r *Reconciler) reconcileVerdict(ctx context.Context, s *scope) error {
	placed, err := s.placed()
	var v admission.Verdict
	if err == nil {
		v, err = r.admission.Verdict(ctx, admission.Question{Workload: s.mw, Template: &s.template, Placed: placed, Now: s.now})
	}
	if err != nil {
		s.verdict = admission.Verdict{Undecided: true, Reason: reasonAdmissionPending, Message: err.Error()}
		return err
	}
	s.verdict = v
	if v.Accepted {
		s.admitted = v.Admitted
		s.wanted = wantedOf(s.mw, s.hash, template.Hash(s.admitted), s.memory.imposed)
		s.placer = placement.New(s.admitted)
		s.memory.placer = new(s.placer)
	}
	if !v.Recheck.IsZero() {
		s.wakeAfter(max(v.Recheck.Sub(s.now), time.Second))
	}
	return nil
}

// confirm asks past the cache, once, whether the object exists and is not being
// deleted: what is created, adopted or restarted for it after that would only be killed.
func (r *Reconciler) confirm(ctx context.Context, s *scope) (bool, error) {
	if s.confirmed == nil {
		current := &v1alpha1.ManagedWorkload{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(s.mw), current)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get ManagedWorkload past the cache: %w", err)
		}
		s.confirmed = new(err == nil && current.UID == s.mw.UID && current.DeletionTimestamp.IsZero())
		s.changedBy = writes.LastWriter(current.ManagedFields, "spec")
	}
	return *s.confirmed, nil
}

// forget drops what is remembered of an object that is gone.
func (r *Reconciler) forget(name types.NamespacedName) {
	dropWorkloadMetrics(name)
	r.kills.Forget(name)
	r.admission.Forget(name)
	r.memories.forget(name)
}
