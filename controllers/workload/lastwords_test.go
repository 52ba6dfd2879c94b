// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

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
	nw := managertest.NodeWorkload("n1", "mw", managertest.Kill("k1", 1, v1alpha1.KillPhaseStopping, ""))
	b.fleet.Kills.Observe(nw)
	if _, seen, err := b.reconcile(); err != nil || len(seen.Finalizers) != 1 || seen.Status.RecentKills[0].Phase != v1alpha1.KillPhaseStopping {
		t.Fatalf("before the last words: %v\n%s", err, managertest.Dump(seen))
	}
	last := nw.DeepCopy()
	last.Status.Kills = []v1alpha1.KillRecord{managertest.Kill("k1", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced)}
	last.Status.Kills[0].FinishTime = new(metav1.NowMicro())
	b.fleet.Kills.Gone(last)
	if _, err := b.Reconcile(t.Context(), request("default", "web")); err != nil {
		t.Fatal(err)
	}
	err := b.client.Get(t.Context(), client.ObjectKeyFromObject(mw), &v1alpha1.ManagedWorkload{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the ManagedWorkload is kept: %v", err)
	}
	if written == nil || written.Status.ForcedKills != 1 || written.Status.RecentKills[0].Phase != v1alpha1.KillPhaseDone {
		t.Errorf("written last: %s", managertest.Dump(written))
	}
	if got := b.drain(eventKilled); len(got) != 1 {
		t.Errorf("events: %v", got)
	}
}

// The end of an object takes one write, also where the cache lags behind the last
// one, and what others requested meanwhile stays.
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

// The last words of a NodeWorkload that is gone are in the manager's memory only:
// they do not wait for the 10 s.
func TestLastWordsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{}, workloadInMemory())
		expect := func(what string, want int) {
			t.Helper()
			if _, mw, err := b.reconcile(); err != nil || len(mw.Status.RecentKills) != want {
				t.Errorf("%s: %v, %d kills in the status, want %d", what, err, len(mw.Status.RecentKills), want)
			}
		}
		word := func(node, id string) *v1alpha1.NodeWorkload {
			nw := managertest.NodeWorkload(node, "mw", managertest.Kill(id, 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))
			nw.Status.Kills[0].FinishTime = &metav1.MicroTime{Time: time.Now()}
			return nw
		}
		b.fleet.Kills.Observe(word("n1", "a"))
		expect("the first kill", 1)
		b.fleet.Kills.Observe(word("n2", "b"))
		expect("one more within 10 s", 1)
		b.fleet.Kills.Gone(word("n2", "b"))
		expect("its NodeWorkload is gone", 2)
		b.fleet.Kills.Observe(word("n3", "c"))
		expect("and another within 10 s", 2)
	})
}

// Reports about an object that is gone are not kept for ever.
func TestReportsOfForgottenObjectsAreDropped(t *testing.T) {
	b := newBench(t, interceptor.Funcs{})
	nw := managertest.NodeWorkload("n1", "gone", managertest.Kill("a", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))
	nw.Namespace = "default"
	for range 2 {
		b.fleet.Kills.Observe(nw)
		b.fleet.Kills.Gone(nw)
		if _, err := b.Reconcile(t.Context(), request("default", "web")); err != nil || len(b.fleet.Kills.Pending("gone", time.Time{}).Records) != 0 {
			t.Errorf("%v, %d records left", err, len(b.fleet.Kills.Pending("gone", time.Time{}).Records))
		}
	}
}
