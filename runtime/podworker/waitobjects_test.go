// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// fakeObjects lacks what a test says.
type fakeObjects struct {
	mu      sync.Mutex
	missing []plan.Missing
	asked   int
}

func (f *fakeObjects) Missing(_ context.Context, pod *corev1.Pod) []plan.Missing {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if pod.Spec.Containers[0].Image != "image:2" {
		return nil
	}
	return f.missing
}

func (f *fakeObjects) set(missing ...plan.Missing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing = missing
}

func (f *fakeObjects) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func lacking(container, message string) plan.Missing {
	return plan.Missing{Container: container, Reason: plan.Reason{Reason: v1alpha1.ReasonObjectsMissing, Message: message}}
}

// withMissing runs test with a workload that runs and whose second template lacks objects.
func withMissing(t *testing.T, test func(n *fakeNode, o *fakeObjects, p *Pool)) {
	synctest.Test(t, func(t *testing.T) {
		n, o := newFakeNode(t), &fakeObjects{}
		p := n.restoreWith(t, func(cfg *Config) { cfg.Objects = o })
		n.begin(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		test(n, o, p)
	})
}

func TestChangeWaitsForItsObjects(t *testing.T) {
	withMissing(t, func(n *fakeNode, o *fakeObjects, p *Pool) {
		old := n.runs(t, "a")
		o.set(lacking("", `volume "config": configmap "x" not found`), lacking("c", `secret "y" not found`))
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Second)
		c := n.waits("a")
		want := `volume "config": configmap "x" not found; container c: secret "y" not found`
		if n.runs(t, "a") != old || c == nil || c.Reason != v1alpha1.ReasonObjectsMissing || c.Message != want {
			t.Fatalf("%s runs, condition %+v", n.runs(t, "a"), c)
		}

		// A wake brings it about at once.
		o.set()
		p.Wake("a")
		n.settle(100 * time.Millisecond)
		if n.runs(t, "a") == old || n.waits("a") != nil {
			t.Errorf("%s runs, condition %+v", n.runs(t, "a"), n.waits("a"))
		}
	})
}

// Nothing wakes the worker when a token can be fetched again.
func TestMissingObjectsAreLookedForAgain(t *testing.T) {
	withMissing(t, func(n *fakeNode, o *fakeObjects, p *Pool) {
		old := n.runs(t, "a")
		o.set(lacking("", "failed to fetch token: away"))
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(5 * time.Second)
		o.set()
		n.settle(2 * errorDelay)
		if n.runs(t, "a") == old {
			t.Error("the change still waits")
		}
	})
}

func TestNoObjectIsLookedForWithoutAChange(t *testing.T) {
	withMissing(t, func(n *fakeNode, o *fakeObjects, p *Pool) {
		p.Wake("a")
		n.settle(time.Hour)
		if asked := o.questions(); asked != 0 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestDeletionDoesNotWaitForObjects(t *testing.T) {
	withMissing(t, func(n *fakeNode, o *fakeObjects, p *Pool) {
		o.set(lacking("", "missing"))
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Second)
		p.Update(workload("a", generation(2), image("image:2"), deleted(nil)))
		n.settle(time.Second)
		if len(n.killed) != 1 {
			t.Errorf("%d pod kills after the deletion", len(n.killed))
		}
	})
}

// A template that is taken back waits for nothing.
func TestChangeThatIsTakenBackWaitsForNoObject(t *testing.T) {
	withMissing(t, func(n *fakeNode, o *fakeObjects, p *Pool) {
		old := n.runs(t, "a")
		o.set(lacking("", "missing"))
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Second)
		p.Update(workload("a", generation(3)))
		n.settle(time.Second)
		if n.runs(t, "a") != old || n.waits("a") != nil {
			t.Errorf("%s runs, condition %+v", n.runs(t, "a"), n.waits("a"))
		}
	})
}
