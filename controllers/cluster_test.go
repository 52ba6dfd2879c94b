// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// patience is how long a test waits for what has to come.
const patience = 20 * time.Second

// cluster is one test's share of the API server: a namespace, and nodes that only
// its workloads select.
type cluster struct {
	t         *testing.T
	ctx       context.Context
	namespace string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if api == nil {
		t.Skip(whyNoAPI)
	}
	t.Parallel()
	return newClusterAlone(t)
}

// newClusterAlone makes one for a test beside which no other runs.
func newClusterAlone(t *testing.T) *cluster {
	t.Helper()
	if api == nil {
		t.Skip(whyNoAPI)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := api.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, ctx: t.Context(), namespace: ns.Name}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// node adds a Node that the test's workloads select, on which a shim was some time, and
// returns its name.
func (c *cluster) node(name string, taints ...corev1.Taint) string {
	c.t.Helper()
	name = c.nodeWithoutShim(name, taints...)
	c.must(api.Create(c.ctx, leaseOf(name)))
	return name
}

func leaseOf(node string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: v1alpha1.LeaseNamePrefix + node}}
}

// nodeWithoutShim adds a Node that the test's workloads select, and returns its name.
func (c *cluster) nodeWithoutShim(name string, taints ...corev1.Taint) string {
	c.t.Helper()
	name = c.namespace + "." + name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": c.namespace}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
	c.must(api.Create(c.ctx, node))
	// Nodes outlive namespaces: whatever the test did, it leaves none behind.
	c.t.Cleanup(func() { _ = api.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}) })
	return name
}

func (c *cluster) deleteNode(name string) {
	c.t.Helper()
	c.must(api.Delete(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func (c *cluster) updateNode(name string, change func(*corev1.Node)) {
	c.t.Helper()
	change2 := func(n *corev1.Node) { change(n) }
	update(c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, change2)
}

// lease lets a node's shim look alive for that many seconds from now.
func (c *cluster) lease(node string, seconds int32) {
	c.t.Helper()
	lease := leaseOf(node)
	_, err := controllerutil.CreateOrUpdate(c.ctx, api, lease, func() error {
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: ptr.To(metav1.NowMicro())}
		return nil
	})
	c.must(err)
}

// workload makes a ManagedWorkload of one container that runs on the test's nodes.
func (c *cluster) workload(change ...func(*v1alpha1.ManagedWorkload)) *v1alpha1.ManagedWorkload {
	c.t.Helper()
	return c.workloadBy("controllers.test", change...)
}

// workloadBy makes one as a field manager.
func (c *cluster) workloadBy(owner string, change ...func(*v1alpha1.ManagedWorkload)) *v1alpha1.ManagedWorkload {
	c.t.Helper()
	mw := &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web"},
		Spec: v1alpha1.ManagedWorkloadSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"test": c.namespace},
			Containers:   []corev1.Container{{Name: "app", Image: "app:1"}},
		}}},
	}
	for _, f := range change {
		f(mw)
	}
	c.must(api.Create(c.ctx, mw, client.FieldOwner(owner)))
	return mw
}

func (c *cluster) nodeWorkload(node string) *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: placement.NodeWorkloadName("web", node)}}
}

// await watches obj until done says so, and leaves it in that state.
func await[T client.Object](c *cluster, obj T, what string, done func(T) bool) T {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	w := c.watch(ctx, obj)
	defer w.Stop()
	var last T
	for {
		select {
		case e, open := <-w.ResultChan():
			if current, ok := e.Object.(T); open && ok && e.Type != watch.Deleted {
				if last = current; done(current) {
					return current
				}
			}
			if !open {
				c.t.Fatalf("%s: the watch ended; last seen:\n%s", what, managertest.Dump(last))
			}
		case <-ctx.Done():
			c.t.Fatalf("%s: not within %s; last seen:\n%s", what, patience, managertest.Dump(last))
		}
	}
}

// awaitGone waits until obj does not exist.
func (c *cluster) awaitGone(obj client.Object) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	w := c.watch(ctx, obj)
	defer w.Stop()
	last := obj
	if err := api.Get(ctx, client.ObjectKeyFromObject(obj), obj); apierrors.IsNotFound(err) {
		return
	}
	for {
		select {
		case e := <-w.ResultChan():
			if e.Type == watch.Deleted {
				return
			}
			if current, ok := e.Object.(client.Object); ok {
				last = current
			}
		case <-ctx.Done():
			c.t.Fatalf("%T %s is not gone within %s; last seen:\n%s", obj, obj.GetName(), patience, managertest.Dump(last))
		}
	}
}

func (c *cluster) watch(ctx context.Context, obj client.Object) watch.Interface {
	c.t.Helper()
	var list client.ObjectList
	switch obj.(type) {
	case *v1alpha1.ManagedWorkload:
		list = &v1alpha1.ManagedWorkloadList{}
	case *v1alpha1.NodeWorkload:
		list = &v1alpha1.NodeWorkloadList{}
	case *v1alpha1.KillRequest:
		list = &v1alpha1.KillRequestList{}
	default:
		c.t.Fatalf("no watch of %T", obj)
	}
	w, err := api.Watch(ctx, list, client.InNamespace(obj.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", obj.GetName())})
	c.must(err)
	return w
}

// awaitEvent waits for an event on obj whose message contains words.
func (c *cluster) awaitEvent(obj client.Object, reason, words string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	w, err := api.Watch(ctx, &corev1.EventList{}, client.InNamespace(c.namespace))
	c.must(err)
	defer w.Stop()
	var seen []string
	for {
		select {
		case e := <-w.ResultChan():
			ev, ok := e.Object.(*corev1.Event)
			if !ok || ev.InvolvedObject.Name != obj.GetName() {
				continue
			}
			if ev.Reason == reason && strings.Contains(ev.Message, words) {
				return
			}
			seen = append(seen, ev.Reason+": "+ev.Message)
		case <-ctx.Done():
			c.t.Fatalf("no event %s with %q within %s; seen:\n%s", reason, words, patience, strings.Join(seen, "\n"))
		}
	}
}

// update changes an object, again when another write came first.
func update[T client.Object](c *cluster, obj T, change func(T)) T {
	c.t.Helper()
	c.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := api.Get(c.ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(obj)
		return api.Update(c.ctx, obj)
	}))
	return obj
}

func updateStatus(c *cluster, nw *v1alpha1.NodeWorkload, change func(*v1alpha1.NodeWorkload)) {
	c.t.Helper()
	c.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := api.Get(c.ctx, client.ObjectKeyFromObject(nw), nw); err != nil {
			return err
		}
		change(nw)
		return api.Status().Update(c.ctx, nw)
	}))
}

// hasCondition reports whether a condition stands at a status with a reason.
func hasCondition(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) bool {
	c := meta.FindStatusCondition(conditions, kind)
	return c != nil && c.Status == status && c.Reason == reason
}

// readyOn reports whether the object is ready on that many nodes. (The manager may
// see a workload before the nodes that were made just before it.)
func readyOn(nodes int32) func(*v1alpha1.ManagedWorkload) bool {
	return func(mw *v1alpha1.ManagedWorkload) bool { return isReady(mw) && mw.Status.DesiredNodes == nodes }
}

func isReady(mw *v1alpha1.ManagedWorkload) bool {
	return mw.Status.ObservedGeneration == mw.Generation && meta.IsStatusConditionTrue(mw.Status.Conditions, v1alpha1.ConditionReady)
}

// fakeShim stands for the shims of some nodes: it reports what it is given as
// running, and ends what is deleted.
type fakeShim struct {
	c     *cluster
	nodes []string

	mu sync.Mutex
	// hold keeps deleted NodeWorkloads from ending while it is set.
	hold bool
	wake chan struct{}
}

// shimOn starts a shim for nodes with a lease that lives long.
func (c *cluster) shimOn(nodes ...string) *fakeShim {
	c.t.Helper()
	s := &fakeShim{c: c, nodes: nodes, wake: make(chan struct{}, 1)}
	for _, n := range nodes {
		c.lease(n, 3600)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	w, err := api.Watch(ctx, &v1alpha1.NodeWorkloadList{}, client.InNamespace(c.namespace))
	c.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx, w.ResultChan())
	}()
	c.t.Cleanup(func() {
		cancel()
		w.Stop()
		<-done
	})
	return s
}

func (s *fakeShim) setHold(hold bool) {
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	s.wake <- struct{}{}
}

func (s *fakeShim) run(ctx context.Context, events <-chan watch.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case _, open := <-events:
			if !open {
				return
			}
		}
		if err := s.sync(ctx); err != nil && ctx.Err() == nil {
			s.c.t.Errorf("fake shim: %v", err)
			return
		}
	}
}

// sync brings every NodeWorkload of the shim's nodes one step further.
func (s *fakeShim) sync(ctx context.Context) error {
	list := &v1alpha1.NodeWorkloadList{}
	if err := api.List(ctx, list, client.InNamespace(s.c.namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		nw := &list.Items[i]
		if !slices.Contains(s.nodes, nw.Spec.NodeName) {
			continue
		}
		err := s.report(ctx, nw)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		if apierrors.IsConflict(err) {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

func (s *fakeShim) report(ctx context.Context, nw *v1alpha1.NodeWorkload) error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if !nw.DeletionTimestamp.IsZero() {
		if hold || !controllerutil.ContainsFinalizer(nw, v1alpha1.Finalizer) {
			return nil
		}
		return s.finish(ctx, nw)
	}
	hash := template.Hash(&nw.Spec.Template)
	if nw.Status.ObservedGeneration == nw.Generation && nw.Status.TemplateHash == hash {
		return nil
	}
	nw.Status.ObservedGeneration, nw.Status.TemplateHash = nw.Generation, hash
	nw.Status.Phase, nw.Status.Summary, nw.Status.Ready = corev1.PodRunning, "Running", "1/1"
	meta.SetStatusCondition(&nw.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "ContainersReady", Message: "ready"})
	return api.Status().Update(ctx, nw)
}

// finish writes the last record of a NodeWorkload and lets it go.
func (s *fakeShim) finish(ctx context.Context, nw *v1alpha1.NodeWorkload) error {
	now := metav1.NowMicro()
	nw.Status.Kills = append([]v1alpha1.KillRecord{{
		ID: "end-" + string(nw.UID), Container: "app", Trigger: v1alpha1.TriggerTermination,
		RequestedBy: nw.Annotations[v1alpha1.AnnotationRequestedBy], Phase: v1alpha1.KillPhaseDone,
		Outcome: v1alpha1.KillOutcomeForced, Summary: "SIGTERM ignored; killed after 30s",
		Grace: v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod}, StartTime: now, FinishTime: &now,
	}}, nw.Status.Kills...)
	if err := api.Status().Update(ctx, nw); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(nw, v1alpha1.Finalizer)
	if err := api.Update(ctx, nw); err != nil {
		return fmt.Errorf("let go: %w", err)
	}
	return nil
}
