// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// countingReader counts the lists of NodeWorkloads.
type countingReader struct {
	client.Reader
	lists *int
}

func (r countingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*v1alpha1.NodeWorkloadList); ok {
		*r.lists++
	}
	return r.Reader.List(ctx, list, opts...)
}

// What was written is waited for, but not for ever: then the API server is read.
func TestWhatWasWrittenIsSeenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory())...)
		b.blind = true
		b.live = countingReader{b.live, &lists}
		if _, mw, err := b.reconcile(); err != nil || mw.Status.DesiredNodes != 1 {
			t.Fatalf("%v, %+v", err, mw.Status)
		}
		if nw := b.nodeWorkload(); nw == nil {
			t.Fatal("no NodeWorkload")
		}
		for range 3 {
			time.Sleep(time.Second)
			if res, _, err := b.reconcile(); err != nil || res.RequeueAfter != seenRetry || lists != 0 {
				t.Errorf("while the watch is behind: %v, again after %s, %d live lists", err, res.RequeueAfter, lists)
			}
		}
		time.Sleep(seenPatience)
		if res, _, err := b.reconcile(); err != nil || res.RequeueAfter == seenRetry || lists != 1 {
			t.Errorf("when it was behind for long: %v, again after %s, %d live lists", err, res.RequeueAfter, lists)
		}
		b.blind = false
		if res, _, err := b.reconcile(); err != nil || res.RequeueAfter == seenRetry || lists != 1 {
			t.Errorf("when the watch is back: %v, again after %s, %d live lists", err, res.RequeueAfter, lists)
		}
		list := &v1alpha1.NodeWorkloadList{}
		if err := b.client.List(t.Context(), list); err != nil || len(list.Items) != 1 {
			t.Errorf("%d NodeWorkloads, want 1 (%v)", len(list.Items), err)
		}
	})
}

// A status alone wakes a large workload later, at most a second.
func TestDelay(t *testing.T) {
	for shares, want := range map[int]time.Duration{
		1: 0, 50: 0, 51: 100 * time.Millisecond, 1000: 100 * time.Millisecond, 5000: 500 * time.Millisecond, 100_000: time.Second,
	} {
		if got := delay(shares); got != want {
			t.Errorf("%d NodeWorkloads: %s, want %s", shares, got, want)
		}
	}
}
