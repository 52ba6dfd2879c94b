// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// releaseBench is the other reconciler over an API server in memory, with one
// NodeWorkload of node n1.
type releaseBench struct {
	*nodeWorkloadReconciler
	t *testing.T
}

func newReleaseBench(t *testing.T, change func(*v1alpha1.NodeWorkload), objects ...client.Object) *releaseBench {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	nw := nodeWorkload("n1", "")
	nw.Namespace, nw.Finalizers = "default", []string{v1alpha1.Finalizer}
	nw.Status.ObservedGeneration, nw.Status.Phase = 1, corev1.PodRunning
	change(nw)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, nw)...).
		WithStatusSubresource(&v1alpha1.NodeWorkload{}).Build()
	return &releaseBench{t: t, nodeWorkloadReconciler: &nodeWorkloadReconciler{
		client: c, live: c, recorder: record.NewFakeRecorder(10), shims: newShims("system"),
		releaseAfter: releaseAfter, lost: map[types.NamespacedName]loss{},
	}}
}

// reconcile runs until nothing is left to do at this moment, and reports whether
// the NodeWorkload still exists, untouched.
func (b *releaseBench) reconcile() (kept bool, wait time.Duration) {
	b.t.Helper()
	for range 3 {
		res, err := b.Reconcile(b.t.Context(), request("default", "web-n1"))
		if err != nil {
			b.t.Fatal(err)
		}
		wait = res.RequeueAfter
	}
	nw := &v1alpha1.NodeWorkload{}
	err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: "web-n1"}, nw)
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

func TestReleaseNeedsAnExpiredLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := leaseRenewedAt(time.Now())
		b := newReleaseBench(t, func(*v1alpha1.NodeWorkload) {}, lease)
		for range 10 { // renewed for 100 s, without a Node
			time.Sleep(10 * time.Second)
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			if err := b.client.Update(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			if kept, _ := b.reconcile(); !kept {
				t.Fatal("ended while its shim lives")
			}
		}
		_, wait := b.reconcile()
		time.Sleep(wait)
		kept, wait := b.reconcile()
		if !kept || wait != 40*time.Second+expirySlack {
			t.Fatalf("when the lease has expired: kept %v, again after %s", kept, wait)
		}
		time.Sleep(wait)
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
				objects = append(objects, leaseRenewedAt(time.Now().Add(-time.Hour)))
			}
			b := newReleaseBench(t, func(nw *v1alpha1.NodeWorkload) {
				tc.change(nw)
				nw.DeletionTimestamp = new(metav1.Now())
			}, objects...)
			b.reconcile()
			err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-n1"}, &v1alpha1.NodeWorkload{})
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if kept := err == nil; kept != tc.wantKept {
				t.Errorf("kept = %v, want %v", kept, tc.wantKept)
			}
		})
	}
}

// The last words of a NodeWorkload may reach the manager after it is gone from
// the cache: the ManagedWorkload waits for them, and they are written, although
// nothing else changes any more.
func TestDeletionWaitsForLastWords(t *testing.T) {
	mw := workloadInMemory()
	mw.Finalizers = []string{v1alpha1.Finalizer}
	mw.DeletionTimestamp = new(metav1.Now())
	var written *v1alpha1.ManagedWorkload
	b := newBench(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		err := c.SubResource(sub).Update(ctx, obj, opts...)
		if seen, ok := obj.(*v1alpha1.ManagedWorkload); ok {
			written = seen.DeepCopy()
		}
		return err
	}}, mw)
	nw := nodeWorkload("n1", "mw", kill("k1", 1, v1alpha1.KillPhaseStopping, ""))
	b.kills.observe(nil, nw)
	if _, seen, err := b.reconcile(); err != nil || len(seen.Finalizers) != 1 || seen.Status.RecentKills[0].Phase != v1alpha1.KillPhaseStopping {
		t.Fatalf("before the last words: %v\n%s", err, dump(seen))
	}
	last := nw.DeepCopy()
	last.Status.Kills = []v1alpha1.KillRecord{kill("k1", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced)}
	last.Status.Kills[0].FinishTime = new(metav1.NowMicro())
	b.kills.gone(last)
	if _, err := b.Reconcile(t.Context(), request("default", "web")); err != nil {
		t.Fatal(err)
	}
	err := b.client.Get(t.Context(), client.ObjectKeyFromObject(mw), &v1alpha1.ManagedWorkload{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the ManagedWorkload is kept: %v", err)
	}
	if written == nil || written.Status.ForcedKills != 1 || written.Status.RecentKills[0].Phase != v1alpha1.KillPhaseDone {
		t.Errorf("written last: %s", dump(written))
	}
	if got := b.drain(eventKilled); len(got) != 1 {
		t.Errorf("events: %v", got)
	}
}

// The end of an object takes one write, also where the cache lags behind the last
// one, and what somebody else asked for meanwhile stays.
func TestLastWrite(t *testing.T) {
	tests := map[string]struct {
		finalizers []string
		stale      bool
		wantKept   []string
		wantStatus bool
	}{
		"ours alone":              {finalizers: []string{v1alpha1.Finalizer}},
		"the cache lags":          {finalizers: []string{v1alpha1.Finalizer}, stale: true},
		"somebody else's stays":   {finalizers: []string{v1alpha1.Finalizer, "example.com/backup"}, wantKept: []string{"example.com/backup"}, wantStatus: true},
		"stale, and another's":    {finalizers: []string{v1alpha1.Finalizer, "example.com/backup"}, stale: true, wantKept: []string{"example.com/backup"}, wantStatus: true},
		"for a garbage collector": {finalizers: []string{v1alpha1.Finalizer, metav1.FinalizerDeleteDependents}, stale: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			mw := workloadInMemory()
			mw.Finalizers, mw.DeletionTimestamp = tc.finalizers, new(metav1.Now())
			stale, statusWritten := tc.stale, false
			b := newBench(t, interceptor.Funcs{
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
					statusWritten = true
					return c.SubResource(sub).Update(ctx, obj, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if stale {
						stale = false
						return apierrors.NewConflict(schema.GroupResource{Resource: "managedworkloads"}, obj.GetName(), errors.New("changed"))
					}
					return c.Patch(ctx, obj, patch, opts...)
				},
			}, mw)
			if _, err := b.Reconcile(t.Context(), request("default", "web")); err != nil {
				t.Fatal(err)
			}
			got := &v1alpha1.ManagedWorkload{}
			err := b.client.Get(t.Context(), client.ObjectKeyFromObject(mw), got)
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantKept, got.Finalizers, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			if statusWritten != tc.wantStatus {
				t.Errorf("status written: %v, want %v", statusWritten, tc.wantStatus)
			}
		})
	}
}
