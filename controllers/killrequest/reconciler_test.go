// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// bench is a reconciler over an API server in memory.
type bench struct {
	*Reconciler
	t      *testing.T
	events *record.FakeRecorder
}

// newBench has ManagedWorkload web on these nodes, all ready for long, and KillRequest k.
func newBench(t *testing.T, edit func(*v1alpha1.KillRequestSpec), nodes ...string) *bench {
	t.Helper()
	kr := &v1alpha1.KillRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "k", UID: "k-uid", CreationTimestamp: metav1.Now()},
		Spec: v1alpha1.KillRequestSpec{
			WorkloadName: "web", Nodes: v1alpha1.RequestNodes{All: true}, Action: v1alpha1.RequestRestart, RequestedBy: "alice",
		},
	}
	if edit != nil {
		edit(&kr.Spec)
	}
	objects := []client.Object{kr, &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}}}
	for _, node := range nodes {
		objects = append(objects, objectsOf(node)...)
	}
	c := fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.KillRequest{}, &v1alpha1.NodeWorkload{}).Build()
	b := &bench{t: t, events: record.NewFakeRecorder(100), Reconciler: &Reconciler{client: c, live: c}}
	b.restart()
	return b
}

// objectsOf are a node with NodeWorkload and shim, ready for long.
func objectsOf(node string) []client.Object {
	hourAgo := metav1.NewTime(time.Now().Add(-time.Hour))
	nw := managertest.NodeWorkload(node, "web-uid")
	nw.Namespace, nw.CreationTimestamp, nw.UID = "default", hourAgo, uuid.NewUUID()
	nw.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: hourAgo}}
	s := fleet.ShareOf(nw, nil)
	nw.Status.TemplateHash = s.SpecHash
	return []client.Object{nw, managertest.LeaseOf(node, time.Now()), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}}
}

// node adds a node, or to a node its NodeWorkload.
func (b *bench) node(name string) {
	b.t.Helper()
	for _, o := range objectsOf(name) {
		if err := b.client.Create(b.t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			b.t.Fatal(err)
		}
	}
	b.refresh()
}

// restart starts another manager.
func (b *bench) restart() {
	b.t.Helper()
	shims := fleet.NewShims("system")
	b.Reconciler = NewReconciler(b.client, b.live, b.events, Fleet{
		Shares: fleet.NewIndex(fleet.NewLedger(shims), shims), Nodes: fleet.NewNodes(), Shims: shims,
	})
	b.rollsOut(&corev1.PodTemplateSpec{}, nil)
	b.refresh()
}

// rollsOut stores the facts about the roll-out of web: what admission made of its template, and where
// another object has the name of its NodeWorkload.
func (b *bench) rollsOut(admitted *corev1.PodTemplateSpec, blocked map[string]bool) {
	b.fleet.Shares.NoteRollOut("web-uid", &fleet.RollOut{
		Templates: rollout.Templates{Update: "r", Hashes: map[string]string{"r": template.Hash(&managertest.NodeWorkload("n", "").Spec.Template)}},
		Placer:    new(placement.New(admitted)), Blocked: blocked,
	})
}

// refresh shows the reconciler what there is, as the watches would.
func (b *bench) refresh() {
	b.t.Helper()
	list, leases, nodes := &v1alpha1.NodeWorkloadList{}, &coordinationv1.LeaseList{}, &corev1.NodeList{}
	if err := errors.Join(b.client.List(b.t.Context(), list), b.client.List(b.t.Context(), leases), b.client.List(b.t.Context(), nodes)); err != nil {
		b.t.Fatal(err)
	}
	b.fleet.Shares.Reset(list)
	for i := range leases.Items {
		b.fleet.Shims.Observe(&leases.Items[i], time.Now())
	}
	for i := range nodes.Items {
		b.fleet.Nodes.Observe(nodes.Items[i].Name, &nodes.Items[i])
	}
}

func (b *bench) key() ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "k"}}
}

// look reconciles the request once, and shows what came of it.
func (b *bench) look() ctrl.Result {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), b.key())
	if err != nil {
		b.t.Fatal(err)
	}
	b.refresh()
	return result
}

func (b *bench) request() *v1alpha1.KillRequest { return b.requestNamed("k") }

func (b *bench) requestNamed(name string) *v1alpha1.KillRequest {
	b.t.Helper()
	kr := &v1alpha1.KillRequest{}
	if err := b.live.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, kr); err != nil {
		b.t.Fatal(err)
	}
	return kr
}

// asked are the nodes that have the request, and what they have.
func (b *bench) asked() map[string]v1alpha1.NodeRequest { return b.askedBy("k") }

func (b *bench) askedBy(request string) map[string]v1alpha1.NodeRequest {
	b.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(b.t.Context(), list); err != nil {
		b.t.Fatal(err)
	}
	asked := map[string]v1alpha1.NodeRequest{}
	for i := range list.Items {
		for _, r := range list.Items[i].Spec.Requests {
			if r.Name == request {
				asked[list.Items[i].Spec.NodeName] = r
			}
		}
	}
	return asked
}

// nodeWorkload changes that of a node.
func (b *bench) nodeWorkload(node string, change func(*v1alpha1.NodeWorkload) error) {
	b.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(b.t.Context(), list); err != nil {
		b.t.Fatal(err)
	}
	for i := range list.Items {
		if nw := &list.Items[i]; nw.Spec.NodeName == node {
			if err := change(nw); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.refresh()
}

// report is what the shim of a node says of the request.
func (b *bench) report(node string, phase v1alpha1.RequestPhase) {
	b.t.Helper()
	b.nodeWorkload(node, func(nw *v1alpha1.NodeWorkload) error {
		nw.Status.Requests = []v1alpha1.NodeRequestStatus{{ID: "k-uid", Name: "k", Phase: phase}}
		return b.client.Status().Update(b.t.Context(), nw)
	})
}

// forgets is a shim whose node does not have the request any more.
func (b *bench) forgets(node string) {
	b.t.Helper()
	b.nodeWorkload(node, func(nw *v1alpha1.NodeWorkload) error {
		nw.Status.Requests = nil
		return b.client.Status().Update(b.t.Context(), nw)
	})
}

// label puts a node into a zone.
func (b *bench) label(node, zone string) {
	b.t.Helper()
	n := &corev1.Node{}
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		b.t.Fatal(err)
	}
	n.Labels = map[string]string{"zone": zone}
	if err := b.client.Update(b.t.Context(), n); err != nil {
		b.t.Fatal(err)
	}
	b.refresh()
}

// A request reaches all nodes, is over when all are done, and is taken from the nodes only then;
// after its time it is deleted.
func TestRequestFromBeginToEnd(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.TTLSecondsAfterFinished = new(int32(1000)) }, "n1", "n2")
	b.look()
	if asked := b.asked(); len(asked) != 2 || asked["n1"].RequestedBy != "alice" || asked["n1"].ID != "k-uid" {
		t.Fatalf("asked: %+v", asked)
	}
	b.report("n1", v1alpha1.RequestSucceeded)
	b.look()
	if kr := b.request(); kr.Status.Phase != v1alpha1.RequestInProgress || kr.Status.DoneNodes != 1 || len(b.asked()) != 2 {
		t.Errorf("one of two is done: %+v, asked %v", kr.Status, b.asked())
	}
	b.report("n2", v1alpha1.RequestSucceeded)
	if result := b.look(); result.RequeueAfter < 900*time.Second || result.RequeueAfter > 1000*time.Second {
		t.Errorf("looks again after %v", result.RequeueAfter)
	}
	kr := b.request()
	if kr.Status.Phase != v1alpha1.RequestSucceeded || kr.Status.CompletionTime == nil || len(b.asked()) != 0 {
		t.Errorf("all are done: %+v, asked %v", kr.Status, b.asked())
	}
	kr.Status.CompletionTime = new(metav1.NewTime(time.Now().Add(-2000 * time.Second)))
	if err := b.client.Status().Update(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	b.look()
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(kr), kr); !apierrors.IsNotFound(err) {
		t.Errorf("not deleted: %v", err)
	}
}

// A request that is being deleted, and waits for a finalizer of someone else, reaches no node.
func TestRequestThatIsBeingDeleted(t *testing.T) {
	b := newBench(t, nil, "n1")
	kr := b.request()
	kr.Finalizers = []string{"example.com/audit"}
	if err := b.client.Update(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	b.look()
	if kr := b.request(); kr.DeletionTimestamp.IsZero() || len(b.asked()) != 0 {
		t.Errorf("being deleted: %t, asked %v", !kr.DeletionTimestamp.IsZero(), b.asked())
	}
}

// Deleting a request lets go what it stopped, and one that is made again under its name takes
// what the earlier one left behind.
func TestDeletedRequestIsReleased(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.Action = v1alpha1.RequestStop }, "n1", "n2")
	b.look()
	b.report("n1", v1alpha1.RequestHeld)
	b.report("n2", v1alpha1.RequestHeld)
	b.look()
	kr := b.request()
	if kr.Status.Phase != v1alpha1.RequestHeld || kr.Status.CompletionTime != nil || len(b.asked()) != 2 {
		t.Fatalf("held: %+v, asked %v", kr.Status, b.asked())
	}
	if err := b.client.Delete(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	again := &v1alpha1.KillRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "k", UID: "k2", CreationTimestamp: metav1.Now()}, Spec: kr.Spec}
	again.Spec.Nodes = v1alpha1.RequestNodes{Names: []string{"n1"}}
	if err := b.client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	b.look()
	b.look() // after a conflict with itself
	if asked := b.asked(); len(asked) != 1 || asked["n1"].ID != "k2" {
		t.Errorf("made again: asked %+v", asked)
	}
	if err := b.client.Delete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	b.look()
	if len(b.asked()) != 0 {
		t.Errorf("deleted: asked %+v", b.asked())
	}
}

// Through the roll-out's budget nodes are restarted one after another, the next when the one
// before is over and ready again.
func TestRollOutBudget(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.Order = v1alpha1.RequestRollOut }, "n1", "n2", "n3")
	b.look()
	if asked := b.asked(); len(asked) != 1 || asked["n1"].ID == "" {
		t.Fatalf("asked: %v", asked)
	}
	b.look()
	b.report("n1", v1alpha1.RequestInProgress)
	if result := b.look(); len(b.asked()) != 1 || result.RequeueAfter == 0 {
		t.Errorf("the first is under way: asked %v, looks again after %v", b.asked(), result.RequeueAfter)
	}
	b.report("n1", v1alpha1.RequestSucceeded)
	b.look()
	if asked := b.asked(); len(asked) != 2 || asked["n2"].ID == "" {
		t.Errorf("the first is done: asked %v", asked)
	}
}

// A workload that does not exist runs nowhere.
func TestRequestWithoutWorkload(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.WorkloadName = "other" }, "n1")
	b.look()
	if kr := b.request(); kr.Status.Phase != v1alpha1.RequestFailed || len(b.asked()) != 0 {
		t.Errorf("%+v", kr.Status)
	}
	if event := <-b.events.Events; event != "Warning Failed no node that runs the ManagedWorkload is chosen" {
		t.Errorf("event %q", event)
	}
}
