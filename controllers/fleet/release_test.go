// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// releaseBench is the other reconciler over an API server in memory, with one
// NodeWorkload of node n1.
type releaseBench struct {
	*Reconciler
	t *testing.T
}

func newReleaseBench(t *testing.T, change func(*v1alpha1.NodeWorkload), objects ...client.Object) *releaseBench {
	t.Helper()
	nw := managertest.NodeWorkload("n1", "")
	nw.Namespace, nw.Finalizers = "default", []string{v1alpha1.Finalizer}
	nw.Status.ObservedGeneration, nw.Status.Phase = 1, corev1.PodRunning
	change(nw)
	c := fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithObjects(append(objects, nw)...).
		WithStatusSubresource(&v1alpha1.NodeWorkload{}).Build()
	return &releaseBench{t: t, Reconciler: NewReconciler(c, c, newIndex(), record.NewFakeRecorder(10), NewShims("system"), 40*time.Second)}
}

// refresh shows a reconciler what its API server in memory has, as the watches would.
func refresh(t *testing.T, r *Reconciler) {
	t.Helper()
	list, leases := &v1alpha1.NodeWorkloadList{}, &coordinationv1.LeaseList{}
	if err := errors.Join(r.client.List(t.Context(), list), r.client.List(t.Context(), leases)); err != nil {
		t.Fatal(err)
	}
	r.index.Reset(list)
	for i := range leases.Items {
		r.shims.Observe(&leases.Items[i], time.Now())
	}
}

// reconcile runs until nothing is left to do at this moment, and reports whether
// the NodeWorkload still exists, untouched.
func (b *releaseBench) reconcile() (kept bool, wait time.Duration) {
	b.t.Helper()
	for range 3 {
		refresh(b.t, b.Reconciler)
		res, err := b.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: placement.NodeWorkloadName("web", "n1")}})
		if err != nil {
			b.t.Fatal(err)
		}
		wait = res.RequeueAfter
	}
	nw := &v1alpha1.NodeWorkload{}
	err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: placement.NodeWorkloadName("web", "n1")}, nw)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return !apierrors.IsNotFound(err) && nw.DeletionTimestamp.IsZero(), wait
}

func TestReleaseWaits40Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "first"}}
		b := newReleaseBench(t, func(*v1alpha1.NodeWorkload) {}, node)
		expect := func(what string, want bool, wantWait time.Duration) {
			t.Helper()
			kept, wait := b.reconcile()
			if kept != want || wait != wantWait {
				t.Fatalf("%s: kept %v, again after %s; want %v, %s", what, kept, wait, want, wantWait)
			}
		}
		expect("the Node is there", true, 0)
		if err := b.client.Delete(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		expect("the Node is gone", true, 40*time.Second+expirySlack)
		time.Sleep(39 * time.Second)
		expect("after 39 s", true, time.Second+expirySlack)
		if err := b.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "second"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		expect("the Node is back", true, 0)
		if err := b.client.Delete(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		expect("gone again: the time starts again", true, 40*time.Second+expirySlack)
		time.Sleep(20 * time.Second)
		b.lost = map[types.NamespacedName]loss{} // the manager restarts
		expect("a new manager counts from its own start", true, 40*time.Second+expirySlack)
		time.Sleep(40 * time.Second)
		expect("after 40 s", false, 0)
	})
}

// pass lets time pass, in which the manager can read Leases.
func (b *releaseBench) pass(d time.Duration) {
	for ; d > 0; d -= readInterval {
		time.Sleep(min(d, readInterval))
		b.shims.reads.worked(time.Now())
	}
}

func TestReleaseNeedsAnExpiredLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := managertest.Lease(time.Now())
		b := newReleaseBench(t, func(*v1alpha1.NodeWorkload) {}, lease)
		for range 10 { // renewed for 100 s, without a Node
			b.pass(10 * time.Second)
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			if err := b.client.Update(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			b.shims.Observe(lease, time.Now())
			if kept, _ := b.reconcile(); !kept {
				t.Fatal("ended while its shim lives")
			}
		}
		b.reconcile()
		b.pass(40*time.Second + expirySlack)
		kept, wait := b.reconcile()
		if !kept || wait != 40*time.Second+expirySlack {
			t.Fatalf("when the lease has expired: kept %v, again after %s", kept, wait)
		}
		b.pass(wait)
		if kept, _ := b.reconcile(); kept {
			t.Error("kept 40 s after both were gone")
		}
	})
}

// A NodeWorkload that is being deleted and that no shim ever took is let go; one
// that a shim has seen is not.
func TestReleaseOfWhatNeverStarted(t *testing.T) {
	tests := map[string]struct {
		change   func(*v1alpha1.NodeWorkload)
		lease    bool
		wantKept bool
	}{
		"never seen": {change: func(nw *v1alpha1.NodeWorkload) { nw.Status = v1alpha1.NodeWorkloadStatus{ObservedGeneration: -1} }},
		"never seen, but there is a shim": {
			change: func(nw *v1alpha1.NodeWorkload) { nw.Status = v1alpha1.NodeWorkloadStatus{ObservedGeneration: -1} }, lease: true, wantKept: true,
		},
		"seen": {change: func(*v1alpha1.NodeWorkload) {}, wantKept: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}
			if tc.lease {
				objects = append(objects, managertest.Lease(time.Now().Add(-time.Hour)))
			}
			b := newReleaseBench(t, func(nw *v1alpha1.NodeWorkload) {
				tc.change(nw)
				nw.DeletionTimestamp = new(metav1.Now())
			}, objects...)
			b.reconcile()
			err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: placement.NodeWorkloadName("web", "n1")}, &v1alpha1.NodeWorkload{})
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if kept := err == nil; kept != tc.wantKept {
				t.Errorf("kept = %v, want %v", kept, tc.wantKept)
			}
		})
	}
}

// A NodeWorkload that was let go in the meantime keeps its containers, although it
// still looks like one whose ManagedWorkload is gone.
func TestLetGoIsNotEnded(t *testing.T) {
	b := newReleaseBench(t, func(nw *v1alpha1.NodeWorkload) {
		nw.Annotations = map[string]string{v1alpha1.AnnotationRequestedBy: "an earlier attempt"}
	})
	key := client.ObjectKey{Namespace: "default", Name: placement.NodeWorkloadName("web", "n1")}
	nw := &v1alpha1.NodeWorkload{}
	if err := b.client.Get(t.Context(), key, nw); err != nil {
		t.Fatal(err)
	}
	seen := nw.DeepCopy()
	seen.OwnerReferences = managertest.NodeWorkload("n1", "mw").OwnerReferences
	seen.ResourceVersion = "1"
	if err := b.reconcileOwner(t.Context(), ShareOf(seen, nil)); !writes.OnlyConflicts(err) || err == nil {
		t.Errorf("error %v, want a conflict", err)
	}
	if err := b.client.Get(t.Context(), key, nw); err != nil || !nw.DeletionTimestamp.IsZero() {
		t.Errorf("%v\n%s", err, managertest.Dump(nw))
	}
}
