// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// bench is a reconciler over an API server in memory; nothing wakes it but the
// test.
type bench struct {
	*Reconciler
	t      *testing.T
	events *record.FakeRecorder
	// blind: the watch of NodeWorkloads is away.
	blind bool
}

func newBench(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *bench {
	t.Helper()
	create := funcs.Create
	funcs.Create = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if obj.GetUID() == "" { // as an API server does
			obj.SetUID(types.UID("uid-" + obj.GetName()))
		}
		if create != nil {
			return create(ctx, c, obj, opts...)
		}
		return c.Create(ctx, obj, opts...)
	}
	scheme := managertest.Scheme(t)
	// One that keeps no managedFields, which would take most of the time.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})...).WithInterceptorFuncs(funcs).
		WithStatusSubresource(&v1alpha1.ManagedWorkload{}, &v1alpha1.NodeWorkload{}).Build()
	return newBenchOf(t, c)
}

// newBenchOf is a further reconciler over an API server in memory.
func newBenchOf(t *testing.T, c client.Client) *bench {
	t.Helper()
	recorder := record.NewFakeRecorder(1000)
	shims := fleet.NewShims("system")
	kills := fleet.NewLedger(shims)
	known := Fleet{Shares: fleet.NewIndex(kills, shims), Nodes: fleet.NewNodes(), Shims: shims, Kills: kills}
	b := &bench{t: t, events: recorder}
	b.Reconciler = NewReconciler(c, c, recorder, known, admission.NewJudge(c, admission.Options{NoTokens: true}), 10*time.Second)
	return b
}

// refresh shows the reconciler what its API server in memory has, as the watches would.
func (b *bench) refresh() {
	b.t.Helper()
	list, leases, nodes := &v1alpha1.NodeWorkloadList{}, &coordinationv1.LeaseList{}, &corev1.NodeList{}
	for _, l := range []client.ObjectList{list, leases, nodes} {
		if err := b.client.List(b.t.Context(), l); err != nil {
			b.t.Fatal(err)
		}
	}
	for i := range leases.Items {
		b.fleet.Shims.Observe(&leases.Items[i], time.Now())
	}
	leased := map[string]bool{}
	for i := range leases.Items {
		leased[strings.TrimPrefix(leases.Items[i].Name, v1alpha1.LeaseNamePrefix)] = true
	}
	there := map[string]bool{}
	for i := range nodes.Items {
		there[nodes.Items[i].Name] = true
		if !leased[nodes.Items[i].Name] { // a node of a bench has a shim
			b.fleet.Shims.Observe(managertest.LeaseOf(nodes.Items[i].Name, time.Now()), time.Now())
		}
		b.fleet.Nodes.Observe(nodes.Items[i].Name, &nodes.Items[i])
	}
	for _, known := range b.fleet.Nodes.All() {
		if !there[known.Name] {
			b.fleet.Nodes.Observe(known.Name, nil)
		}
	}
	if !b.blind {
		b.fleet.Shares.Reset(list)
	}
}

// Reconcile runs once, after the watches have shown everything.
func (b *bench) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b.t.Helper()
	b.refresh()
	return b.Reconciler.Reconcile(ctx, req)
}

func workloadInMemory() *v1alpha1.ManagedWorkload {
	return &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "mw", Generation: 1},
		Spec:       v1alpha1.ManagedWorkloadSpec{Template: currentTemplate},
		Status:     v1alpha1.ManagedWorkloadStatus{ObservedGeneration: -1},
	}
}

// reconcile runs once and returns the stored object.
func (b *bench) reconcile() (ctrl.Result, *v1alpha1.ManagedWorkload, error) {
	b.t.Helper()
	res, err := b.Reconcile(b.t.Context(), request("default", "web"))
	mw := &v1alpha1.ManagedWorkload{}
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, mw); err != nil {
		b.t.Fatal(err)
	}
	return res, mw, err
}

func (b *bench) drain(reason string) []string {
	var found []string
	for {
		select {
		case e := <-b.events.Events:
			if strings.Contains(e, " "+reason) {
				found = append(found, e)
			}
		default:
			return found
		}
	}
}

// Kills alone are written once in 10 s; with anything else they are written at
// once. They are told of only after they were written.
func TestRecentKillsAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{}, workloadInMemory())
		n := 0
		report := func() {
			n++
			nw := managertest.NodeWorkload("n1", "mw", managertest.Kill(fmt.Sprint("k", n), n, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful))
			nw.Status.Kills[0].FinishTime = &metav1.MicroTime{Time: time.Now()}
			b.fleet.Kills.Observe(nw)
		}
		expect := func(what string, wantKills, wantEvents int) ctrl.Result {
			t.Helper()
			res, mw, err := b.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			if got := len(mw.Status.RecentKills); got != wantKills {
				t.Errorf("%s: %d kills in the status, want %d", what, got, wantKills)
			}
			if got := len(b.drain(eventKilled)); got != wantEvents {
				t.Errorf("%s: %d events, want %d", what, got, wantEvents)
			}
			return res
		}
		expect("no kill", 0, 0)
		report()
		expect("the first kill", 1, 1)
		time.Sleep(3 * time.Second)
		report()
		report()
		res := expect("two more within 10 s", 1, 0)
		if res.RequeueAfter != 7*time.Second {
			t.Errorf("asked for another look after %s, want 7s", res.RequeueAfter)
		}
		time.Sleep(res.RequeueAfter)
		expect("when the 10 s are over", 3, 2)
		report()
		expect("at once again", 3, 0)
		if err := b.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
			t.Fatal(err)
		}
		expect("together with a change of the nodes", 4, 1)
		expect("nothing new", 4, 0)
	})
}

// While the API server cannot be asked nothing is created and the status says so;
// what it accepted before goes on.
func TestAdmissionThatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse error
		asked, names := 0, map[string]bool{}
		b := newBench(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if pod, ok := obj.(*corev1.Pod); ok {
				asked++
				if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
					t.Error("asked with automountServiceAccountToken")
				}
				if strings.Contains(pod.Name, "web") || names[pod.Name] {
					t.Errorf("asked for Pod %q, which a policy can be written for", pod.Name)
				}
				names[pod.Name] = true
				return refuse
			}
			return c.Create(ctx, obj, opts...)
		}}, workloadInMemory(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		accepted := func(mw *v1alpha1.ManagedWorkload) string {
			c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted)
			return string(c.Status) + " " + c.Reason
		}
		nodeWorkloads := func() int {
			list := &v1alpha1.NodeWorkloadList{}
			if err := b.client.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			return len(list.Items)
		}

		refuse = apierrors.NewInternalError(errors.New("webhook is away"))
		_, mw, err := b.reconcile()
		if err == nil || accepted(mw) != "Unknown AdmissionPending" || managertest.Kstatus(mw) != "InProgress" || nodeWorkloads() != 0 {
			t.Errorf("away: error %v, Accepted %s, kstatus %s, %d NodeWorkloads", err, accepted(mw), managertest.Kstatus(mw), nodeWorkloads())
		}
		pods := schema.GroupResource{Resource: "pods"}
		refuse = apierrors.NewForbidden(pods, "web-n1", errors.New("violates PodSecurity"))
		res, mw, err := b.reconcile()
		if err != nil || accepted(mw) != "False InvalidTemplate" || managertest.Kstatus(mw) != "Failed" || nodeWorkloads() != 0 || res.RequeueAfter != 2*time.Second {
			t.Errorf("forbidden: error %v, Accepted %s, kstatus %s, %d NodeWorkloads, again after %s", err, accepted(mw), managertest.Kstatus(mw), nodeWorkloads(), res.RequeueAfter)
		}
		asked = 0
		if _, _, err := b.reconcile(); err != nil || asked != 0 {
			t.Errorf("asked again %d times before the time: %v", asked, err)
		}
		time.Sleep(res.RequeueAfter)
		refuse = nil
		if _, mw, err = b.reconcile(); err != nil || accepted(mw) != "True Accepted" || nodeWorkloads() != 1 {
			t.Errorf("admitted: error %v, Accepted %s, %d NodeWorkloads", err, accepted(mw), nodeWorkloads())
		}
		b.admission = admission.NewJudge(b.client, admission.Options{NoTokens: true}) // the manager restarts
		refuse = apierrors.NewInternalError(errors.New("webhook is away"))
		if _, mw, err = b.reconcile(); err != nil || accepted(mw) != "True Accepted" {
			t.Errorf("away after it was accepted: error %v, Accepted %s", err, accepted(mw))
		}
	})
}

// A create that fails on one node does not keep the others from theirs.
func TestOneNodeDoesNotHoldTheOthersUp(t *testing.T) {
	node := func(name string) client.Object { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	b := newBench(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if obj.GetName() == placement.NodeWorkloadName("web", "n1") && obj.GetLabels()[v1alpha1.LabelNode] != "" {
			return errors.New("no")
		}
		return c.Create(ctx, obj, opts...)
	}}, workloadInMemory(), node("n1"), node("n2"))
	_, mw, err := b.reconcile()
	if err == nil {
		t.Error("the failed create is not reported")
	}
	if _, _, err := b.reconcile(); err == nil {
		t.Error("the failed create is not tried again")
	}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: placement.NodeWorkloadName("web", "n2")}, &v1alpha1.NodeWorkload{}); err != nil {
		t.Errorf("the other node: %v", err)
	}
	if mw.Status.DesiredNodes != 2 || managertest.Kstatus(mw) != "InProgress" || len(b.drain(eventFailedCreate)) != 2 {
		t.Errorf("status: %s", managertest.Dump(mw.Status))
	}
}

func TestHeartbeatsWakeNobody(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "1", Labels: map[string]string{"a": "b"}}}
		change(n)
		return n
	}
	tests := map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat": {func(n *corev1.Node) {
			n.ResourceVersion = "2"
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
		}, false},
		"an annotation": {func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, false},
		"a label":       {func(n *corev1.Node) { n.Labels["a"] = "c" }, true},
		"a taint": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{managertest.Taint("a", corev1.TaintEffectNoExecute)}
		}, true},
		"a new UID": {func(n *corev1.Node) { n.UID = "2" }, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			old := node(func(*corev1.Node) {})
			if got := nodeChanged(old, node(tc.change)); got != tc.want {
				t.Errorf("woken = %v, want %v", got, tc.want)
			}
		})
	}
}
