// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Nothing else waits for an image service that does not answer, and nothing is killed
// while it does not.
func TestImageServiceThatHangs(t *testing.T) {
	for name, tt := range map[string]struct {
		prepared bool // before it hangs
		image    string
	}{
		"asked whether the image is there":        {false, "image:2"},
		"asked whether it is there before a kill": {true, "absent:2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				r, p := newRegistry(n), n.start(t)
				p.Update(workload("a"))
				n.settle(time.Second)
				old := n.runs(t, "a")
				if tt.prepared {
					p.Update(workload("a", generation(2), image(tt.image)))
					n.settle(time.Second)
					r.set(func() { r.pushed[tt.image] = true })
				}
				r.set(func() { n.imagesHang = true })
				if tt.prepared {
					close(r.hangs)
					n.settle(2 * errorDelay)
				} else {
					p.Update(workload("a", generation(2), image(tt.image)))
				}
				n.settle(10 * time.Millisecond)
				if id := n.runs(t, "a"); id != old {
					t.Errorf("%s was replaced", old)
				}
				p.Wake("a")
				n.settle(2 * imagePatience)
				p.Update(workload("a", deleted(nil)))
				n.settle(time.Millisecond)
				if len(n.killed) != 1 {
					t.Errorf("%d pod kills after the deletion", len(n.killed))
				}
			})
		})
	}
}

// A deletion does not wait for a question that is under way.
func TestDeletionWhileTheImageServiceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.mu.Lock()
		n.imagesHang = true
		n.mu.Unlock()
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Millisecond)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Millisecond)
		if len(n.killed) != 1 {
			t.Errorf("%d pod kills after the deletion", len(n.killed))
		}
	})
}

// What was prepared is looked at again before the kill: it may have been removed since.
func TestPreparedImageThatIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		old := n.runs(t, "a")
		p.Update(workload("a", generation(2), image("absent:2")))
		n.settle(time.Second)
		r.set(func() { n.imagesLost, r.pushed["absent:2"] = map[string]bool{"sha256:absent:2": true}, true })
		close(r.hangs)
		n.settle(5 * errorDelay)
		if id := n.runs(t, "a"); id != old || n.waits("a") == nil || r.tries < 3 || r.tries > 6 {
			t.Errorf("%s runs after %d pulls, condition %+v", id, r.tries, n.waits("a"))
		}
		r.set(func() { n.imagesLost = nil })
		n.settle(2 * errorDelay)
		if images := n.synced[1].Actions.Images; n.runs(t, "a") == old || len(images) != 1 || images[0].Use != plan.ImagePulled {
			t.Errorf("%s runs, images %+v", n.runs(t, "a"), images)
		}
	})
}

// What the templates of workloads name, and what was pulled for a change, may be needed soon;
// nothing of a workload that is being deleted is.
func TestWantedImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		p.Update(workload("a", image("image:1")))
		n.settle(time.Second)
		r.set(func() { r.pushed["absent:2"] = true })
		p.Update(workload("a", generation(2), image("absent:2")))
		wanted := p.WantedImages()
		if !slices.Contains(wanted, "image:1") || !slices.Contains(wanted, "absent:2") {
			t.Errorf("before the change: wanted %q", wanted)
		}
		n.settle(time.Second)
		if wanted := p.WantedImages(); !slices.Contains(wanted, "absent:2") {
			t.Errorf("after it: wanted %q", wanted)
		}
		p.Update(workload("a", generation(2), image("absent:2"), deleted(nil)))
		if wanted := p.WantedImages(); slices.Contains(wanted, "absent:2") {
			t.Errorf("deleted: wanted %q", wanted)
		}
		n.settle(time.Hour)
	})
}

// The images of a workload that has ended, and of a template that the node does not admit, are
// not kept: nothing is started from them.
func TestImagesThatNothingIsStartedFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			if r.Pod.Name == "done" {
				n.stop(r.Pod.UID, 0)
			}
			return plan.SyncOutcome{Tried: map[string]plan.Reason{"c": {}}}
		}
		never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
		p := n.restoreWith(t, func(c *Config) {
			c.Admit = func(pod *corev1.Pod) *plan.Refusal {
				if pod.Spec.Containers[0].Image == "denied:1" {
					return &plan.Refusal{Reason: "NodePorts", Message: "node(s) didn't have free ports for the requested pod ports"}
				}
				return nil
			}
		})
		n.begin(t)
		p.Update(workload("runs", image("image:1")))
		p.Update(workload("evicted", image("evicted:1")))
		p.Update(workload("done", never, image("done:1")))
		p.Update(workload("denied", image("denied:1")))
		p.Update(workload("changes", image("image:2")))
		n.settle(time.Minute)
		p.Update(workload("changes", generation(2), image("denied:1")))
		p.Terminate("evicted", pressure())
		n.settle(time.Minute)
		if wanted := p.WantedImages(); !slices.Equal(wanted, []string{"image:1", "image:2"}) {
			t.Errorf("wanted %q", wanted)
		}
	})
}
