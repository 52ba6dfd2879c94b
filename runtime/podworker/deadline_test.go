// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
)

// A workload that was active for too long is terminated with its own grace
// period, fails for good, and says why, although its containers leave with 0.
func TestActiveDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const event = "event DeadlineExceeded: Pod was active on the node longer than the specified deadline"
		n := newFakeNode(t)
		p := n.start(t)
		limited := func(nw *template.Workload) {
			nw.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](40)
			nw.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7)
		}
		p.Update(workload("a", limited))
		n.settle(38 * time.Second)
		if st := n.published("a"); st.Phase != corev1.PodRunning || len(n.killed) > 0 {
			t.Fatalf("phase %s, %d kills before the deadline", st.Phase, len(n.killed))
		}
		n.settle(3 * time.Second)
		if len(n.killed) != 1 || n.killed[0].Override.Seconds != 7 || n.killed[0].Override.Source != v1alpha1.GraceSourcePod ||
			n.killed[0].Trigger != v1alpha1.TriggerTermination || n.killed[0].RequestedBy != "shim (activeDeadlineSeconds)" {
			t.Fatalf("kills %+v", n.killed)
		}
		n.settle(time.Hour)
		st := n.published("a")
		if st.Phase != corev1.PodFailed || st.Reason != "DeadlineExceeded" || st.Message == "" {
			t.Errorf("phase %s, reason %q, message %q", st.Phase, st.Reason, st.Message)
		}
		calls := n.log()
		if first := slices.Index(calls, event); first < 0 || slices.Contains(calls[first+1:], event) {
			t.Errorf("calls %q: want one event", calls)
		}
		if len(n.synced) != 1 || n.did("release a") {
			t.Errorf("%d plans, calls %q: it was started again, or released", len(n.synced), calls)
		}
	})
}

// A deadline that is shortened to a time that is over ends the workload at once.
func TestActiveDeadlineShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		limit := func(seconds int64) func(*template.Workload) {
			return func(nw *template.Workload) { nw.Template.Spec.ActiveDeadlineSeconds = &seconds }
		}
		p.Update(workload("a", limit(600)))
		n.settle(time.Minute)
		p.Update(workload("a", limit(30), generation(2)))
		n.settle(0)
		if len(n.killed) != 1 || n.killed[0].RequestedBy != "shim (activeDeadlineSeconds)" {
			t.Fatalf("kills %+v, want one for the deadline", n.killed)
		}
		n.settle(time.Hour)
		if st := n.published("a"); st.Phase != corev1.PodFailed || st.Reason != "DeadlineExceeded" || len(n.synced) != 1 {
			t.Errorf("phase %s, reason %q, %d plans carried out", st.Phase, st.Reason, len(n.synced))
		}
	})
}

// A node's clock that is set ends no workload before its deadline, and keeps none from
// its end: neither in the process that saw its start nor in the next one. Only another
// boot goes by the wall clock.
func TestActiveDeadlineAfterTheClockWasSet(t *testing.T) {
	type then string
	const continues, restarts, boots = then("continues"), then("restarts"), then("boots")
	for name, tt := range map[string]struct {
		offset time.Duration
		then   then
		left   time.Duration // of the 40 s, after 10 s
	}{
		"forward":               {time.Hour, continues, 30 * time.Second},
		"back":                  {-time.Hour, continues, 30 * time.Second},
		"forward, then another": {time.Hour, restarts, 30 * time.Second},
		"back, then another":    {-time.Hour, restarts, 30 * time.Second},
		"forward, then a boot":  {time.Hour, boots, 0},
		"back, then a boot":     {-time.Hour, boots, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var offset atomic.Int64
				c := clock.New(clock.Config{Offset: func() time.Duration { return time.Duration(offset.Load()) }})
				n := newFakeNode(t)
				n.clock = c
				n.start(t).Update(workload("a", func(nw *template.Workload) {
					nw.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](40)
				}))
				n.settle(10 * time.Second)
				offset.Store(int64(tt.offset))
				if tt.then != continues {
					if tt.then == boots {
						n.ofAnotherBoot(t)
					}
					n = restarted(t, n)
					n.clock = c
					n.start(t)
				} else {
					n.pool.Update(workload("a", generation(2), func(nw *template.Workload) { // it looks again
						nw.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](40)
					}))
				}
				if tt.left > 0 {
					n.settle(tt.left - 2*time.Second)
					if len(n.killed) != 0 {
						t.Errorf("killed before the deadline")
					}
				}
				n.settle(5 * time.Second)
				if len(n.killed) != 1 {
					t.Errorf("%d kills after the deadline, want 1", len(n.killed))
				}
			})
		})
	}
}

// ofAnotherBoot has the checkpoints of a node come from an earlier boot.
func (n *fakeNode) ofAnotherBoot(t *testing.T) {
	t.Helper()
	checkpoints, err := n.store.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, cp := range checkpoints {
		cp.BootID = "earlier"
		if err := n.store.Save(cp); err != nil {
			t.Fatal(err)
		}
	}
}

// The start time is known to the shim that comes after.
func TestActiveDeadlineOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.start(t).Update(workload("a", func(nw *template.Workload) {
			nw.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
		}))
		n.settle(30 * time.Second)
		m := restarted(t, n)
		m.start(t)
		m.settle(28 * time.Second)
		if len(m.killed) != 0 {
			t.Error("killed before the deadline")
		}
		m.settle(3 * time.Second)
		if len(m.killed) != 1 {
			t.Errorf("%d kills after the deadline", len(m.killed))
		}
	})
}
