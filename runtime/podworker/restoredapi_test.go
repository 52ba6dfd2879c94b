// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// An object whose storage was restored from a backup runs again, although its workload
// has ended here.
func TestObjectIsThereAgain(t *testing.T) {
	tests := map[string]func(*Pool, *template.Workload){
		"by its event": func(p *Pool, nw *template.Workload) { p.Update(nw) },
		"by a list":    func(p *Pool, nw *template.Workload) { p.Adopt(nw) },
	}
	for name, again := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				p := n.start(t)
				p.Update(workload("a"))
				n.settle(time.Second)
				p.Update(workload("a", deleted(nil)))
				n.settle(time.Minute)
				restored := workload("a", image("image:0"))
				restored.Status.Phase = "Running"
				n.has(restored)
				again(p, restored)
				n.settle(time.Minute)
				if st := n.published("a"); !n.did("start c image:0") || st.Summary != "Running" || len(p.Known()) != 1 {
					t.Errorf("status %q, calls %q", st.Summary, n.log())
				}
			})
		})
	}
}

// One that is there again on its way out is released again, for its finalizer is there
// again too.
func TestDeletedObjectIsThereAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		n.calls = nil
		restored := workload("a", deleted(nil))
		restored.Finalizers = []string{v1alpha1.Finalizer}
		n.has(restored)
		p.Adopt(restored)
		n.settle(time.Minute)
		if !n.did("release a") || n.did("start c image:1") || len(p.Known()) != 0 {
			t.Errorf("calls %q, known %+v", n.log(), p.Known())
		}
	})
}

// One that waits for the finalizers of others only has been released by this shim
// already: nothing happens.
func TestReleasedObjectIsNotThereAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		calls := len(n.log())
		released := workload("a", deleted(nil))
		released.Finalizers = []string{"example.com/other"}
		n.has(released)
		p.Adopt(released)
		n.settle(time.Minute)
		if got := n.log()[calls:]; n.liveReads == 0 || len(got) > 0 || len(p.Known()) != 0 {
			t.Errorf("%d live reads, calls %q, known %+v", n.liveReads, got, p.Known())
		}
	})
}

// As long as a cache has an old version of an object that is gone, the API server is
// asked about it now and then only, and nothing else happens.
func TestOldVersionAsksRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Second)
		calls := len(n.log())
		for range 600 {
			p.Adopt(workload("a"))
			n.settle(100 * time.Millisecond)
		}
		if n.liveReads < 1 || n.liveReads > 6 || len(n.log()) != calls || len(p.Known()) != 0 {
			t.Errorf("%d reads in a minute, calls %q, known %+v", n.liveReads, n.log()[calls:], p.Known())
		}
	})
}

// An old version of an object leaves no checkpoint behind: a process that comes later
// would take it for a workload.
func TestOldVersionLeavesNoCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(releasedQuiet + time.Second)
		p.Adopt(workload("a"))
		n.settle(time.Second)
		if saved, err := n.store.Load(); err != nil || len(saved) != 0 || n.liveReads == 0 {
			t.Errorf("checkpoints %+v, error %v, %d live reads; want none after one read", saved, err, n.liveReads)
		}
	})
}

// A status that was overwritten in the API is written again; what the manager changes in
// its own condition is no reason to.
func TestOverwrittenStatusIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		seen := workload("a")
		st := n.published("a")
		st.DeepCopyInto(&seen.Status)
		seen.Status.Conditions = append(seen.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionTrue})
		count := func() int {
			return len(slices.DeleteFunc(n.log(), func(c string) bool { return c != "publish Running" }))
		}
		before := count()
		p.Update(seen)
		n.settle(time.Minute)
		if count() != before {
			t.Error("written again because of the manager's condition")
		}
		seen.Status.Phase = "Pending"
		p.Update(seen)
		n.settle(time.Minute)
		if count() != before+1 {
			t.Errorf("calls %q, want the status written again", n.log())
		}
	})
}

// After a restore the same generation can have another spec.
func TestSameGenerationOtherSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a", generation(4), image("image:B")))
		n.settle(time.Minute)
		p.Update(workload("a", generation(4), image("image:C")))
		n.settle(time.Minute)
		if !n.did("start c image:C") {
			t.Errorf("calls %q", n.log())
		}
	})
}
