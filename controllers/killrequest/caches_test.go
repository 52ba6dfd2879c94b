// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// lagging is a client whose cache shows a request as it was, or objects not at all, and which
// may end before it hands a request out.
type lagging struct {
	client.Client
	old    *v1alpha1.KillRequest
	hidden func(client.Object) bool
	ends   bool
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if l.hidden != nil && l.hidden(obj) {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	if kr, ok := obj.(*v1alpha1.KillRequest); ok && l.old != nil {
		l.old.DeepCopyInto(kr)
		return nil
	}
	return l.Client.Get(ctx, key, obj, opts...)
}

func (l *lagging) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if _, ok := obj.(*v1alpha1.NodeWorkload); ok && l.ends {
		return errors.New("the manager ends")
	}
	return l.Client.Patch(ctx, obj, patch, opts...)
}

// lag gives the reconciler a cache that is behind; its reads past the cache are not.
func (b *bench) lag() *lagging {
	l := &lagging{Client: b.client}
	b.client = l
	return l
}

// A request that was carried out and released is not entered again for a cache that does not
// show yet that it is over.
func TestStaleRequestIsNotEnteredAgain(t *testing.T) {
	b := newBench(t, nil, "n1")
	b.look()
	before := b.request()
	b.report("n1", v1alpha1.RequestSucceeded)
	b.look()
	b.forgets("n1")
	if kr := b.request(); kr.Status.Phase != v1alpha1.RequestSucceeded || len(b.asked()) != 0 {
		t.Fatalf("%+v, asked %v", kr.Status, b.asked())
	}
	l := b.lag()
	l.old = before
	if result := b.look(); len(b.asked()) != 0 || result.RequeueAfter == 0 {
		t.Errorf("killed a second time: %v, looks again after %v", b.asked(), result.RequeueAfter)
	}
	l.old.Status = v1alpha1.KillRequestStatus{} // as it was made
	if b.look(); len(b.asked()) != 0 {
		t.Errorf("killed a second time: %v", b.asked())
	}
}

// What is stopped stays so while a cache does not show the request, the one of that name that
// was made last, or the workload.
func TestStaleCacheStartsNothing(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.Action = v1alpha1.RequestStop }, "n1")
	b.look()
	b.report("n1", v1alpha1.RequestHeld)
	b.look()
	l := b.lag()
	earlier := b.request()
	earlier.UID = "earlier"
	for what, lag := range map[string]func(){
		"request": func() {
			l.hidden = func(obj client.Object) bool { _, ok := obj.(*v1alpha1.KillRequest); return ok }
		},
		"workload": func() {
			l.hidden = func(obj client.Object) bool { _, ok := obj.(*v1alpha1.ManagedWorkload); return ok }
		},
		"later request": func() {
			l.old = earlier.DeepCopy()
			l.old.Status.CompletionTime = new(metav1.Now())
		},
	} {
		l.old, l.hidden = nil, nil
		lag()
		b.look()
		l.old, l.hidden = nil, nil
		if kr := b.request(); len(b.asked()) != 1 || kr.Status.Phase != v1alpha1.RequestHeld {
			t.Fatalf("without the %s: asked %v, %+v", what, b.asked(), kr.Status)
		}
	}
}

// A manager that ends between its two writes leaves a node that gets the request from the next
// one, before any other.
func TestRestartBeforeTheEntry(t *testing.T) {
	for _, order := range []v1alpha1.RequestOrder{v1alpha1.RequestOrdered, v1alpha1.RequestRollOut} {
		b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.Order = order }, "n1", "n2")
		l := b.lag()
		l.ends = true
		if _, err := b.Reconcile(t.Context(), b.key()); err == nil {
			t.Fatal("the manager does not end")
		}
		states := b.request().Status.NodeStates
		if len(states) != 2 || states[0].NodeWorkloadUID == "" || states[1].NodeWorkloadUID != "" || len(b.asked()) != 0 {
			t.Fatalf("%s: the status says %+v, asked %v", order, states, b.asked())
		}
		l.ends = false
		b.node("n0") // would be the first by its name
		b.restart()
		b.look()
		b.look()
		if asked := b.asked(); len(asked) != 1 || asked["n1"].ID == "" {
			t.Errorf("%s: asked %v", order, asked)
		}
	}
}

// What became of a NodeWorkload that had the request is not forgotten with it: others are not
// begun after its end, and another one in its place does not get the request.
func TestNodeWorkloadGoes(t *testing.T) {
	for _, phase := range []v1alpha1.RequestPhase{v1alpha1.RequestInProgress, v1alpha1.RequestSucceeded} {
		b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.Order = v1alpha1.RequestOrdered }, "n1", "n2")
		b.look()
		b.report("n1", phase)
		b.look()
		b.nodeWorkload("n1", func(nw *v1alpha1.NodeWorkload) error { return b.client.Delete(t.Context(), nw) })
		b.node("n1")
		b.look()
		states := b.request().Status.NodeStates
		at := slices.IndexFunc(states, func(s v1alpha1.RequestNodeState) bool { return s.NodeName == "n1" })
		if at < 0 || len(states) != 2 {
			t.Fatalf("%s: n1 is forgotten: %+v", phase, states)
		}
		want, next := v1alpha1.RequestFailed, 0
		if phase == v1alpha1.RequestSucceeded {
			want, next = phase, 1
		}
		asked := b.asked()
		if states[at].Phase != want || asked["n1"].ID != "" || len(asked) != next {
			t.Errorf("%s: %+v, asked %v", phase, states, asked)
		}
	}
}

// A node that has the request stays a target when its labels change.
func TestLabelsChangeMeanwhile(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) {
		s.Action = v1alpha1.RequestStop
		s.Nodes = v1alpha1.RequestNodes{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}}
	}, "n1", "n2")
	b.label("n1", "a")
	b.look()
	b.report("n1", v1alpha1.RequestHeld)
	b.label("n1", "b")
	b.look()
	kr := b.request()
	if kr.Status.Nodes != 1 || kr.Status.DoneNodes != 1 || kr.Status.NodeStates[0].NodeName != "n1" || len(b.asked()) != 1 {
		t.Errorf("%+v, asked %v", kr.Status, b.asked())
	}
}

// Two requests that look at the same nodes do not both take the last place.
func TestTwoRequestsTakeTurns(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) {
		s.Order, s.Nodes = v1alpha1.RequestRollOut, v1alpha1.RequestNodes{Names: []string{"n1"}}
	}, "n1", "n2")
	other := &v1alpha1.KillRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "l", UID: "l-uid", CreationTimestamp: metav1.Now()}, Spec: b.request().Spec}
	other.Spec.Nodes.Names = []string{"n2"}
	if err := b.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"k", "l", "l"} { // and the watch shows nothing in between
		result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: name}})
		if err != nil || name == "l" && (result.RequeueAfter == 0 || result.RequeueAfter > turnRetry) {
			t.Fatalf("%s: %v, %v", name, result, err)
		}
	}
	if kr := b.requestNamed("l"); len(b.asked()) != 1 || len(b.askedBy("l")) != 0 || kr.Status.NodeStates[0].NodeWorkloadUID != "" {
		t.Errorf("both restart a node: %v, %v", b.asked(), b.askedBy("l"))
	}
	b.refresh()
	b.report("n1", v1alpha1.RequestSucceeded)
	if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(other)}); err != nil || len(b.askedBy("l")) != 1 {
		t.Errorf("the other one does not get its turn: %v, %v", b.askedBy("l"), err)
	}
}

// A shim that responds and does not take a request fails it: the request is taken from the node,
// which does not get it again. One that is away, or busy, is waited for.
func TestShimThatTakesNoRequest(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.FailurePolicy = v1alpha1.RequestIgnore }, "n1", "n2")
	b.look()
	b.report("n2", v1alpha1.RequestInProgress)
	if result := b.look(); result.RequeueAfter < patience-time.Second || result.RequeueAfter > patience+time.Second {
		t.Errorf("looks again after %v", result.RequeueAfter)
	}
	if len(b.asked()) != 2 {
		t.Fatalf("asked %v", b.asked())
	}
	for range 3 {
		b.silences.note(b.key().NamespacedName, map[string]time.Time{"n1": time.Now().Add(-patience), "n2": time.Now().Add(-patience)})
		b.look()
		kr := b.request()
		if asked := b.asked(); len(asked) != 1 || asked["n2"].ID == "" || kr.Status.CompletionTime != nil || kr.Status.FailedNodes != 1 {
			t.Fatalf("asked %v, %+v", asked, kr.Status)
		}
		if first := kr.Status.NodeStates[0]; first.NodeName != "n1" ||
			first.Message != "the node's shim responds, but did not take the request within 60 s" {
			t.Errorf("%+v", first)
		}
		b.restart()
	}
	b.report("n2", v1alpha1.RequestSucceeded)
	b.look()
	if kr := b.request(); kr.Status.Phase != v1alpha1.RequestFailed || kr.Status.DoneNodes != 1 || len(b.asked()) != 0 {
		t.Errorf("%+v, asked %v", kr.Status, b.asked())
	}
}

// A node whose shim is away will carry out the requests that it has, and takes up budget.
func TestBudgetOfNodesThatAreAway(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) {
		s.Order, s.Nodes = v1alpha1.RequestRollOut, v1alpha1.RequestNodes{Names: []string{"n1"}}
	}, "n1", "n2")
	b.nodeWorkload("n2", func(nw *v1alpha1.NodeWorkload) error {
		nw.Spec.Requests = []v1alpha1.NodeRequest{{ID: "l-uid", Name: "l", Action: v1alpha1.RequestRestart}}
		return b.client.Update(t.Context(), nw)
	})
	if err := b.client.Delete(t.Context(), managertest.LeaseOf("n2", time.Now())); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if b.look(); len(b.asked()) != 0 {
		t.Errorf("a second node may become unavailable: %v", b.asked())
	}
}
