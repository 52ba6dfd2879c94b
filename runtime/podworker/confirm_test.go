// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

const many = 50

// manyContainers have an image each of that name.
func manyContainers(image string) func(*template.Workload) {
	return func(nw *template.Workload) {
		nw.Template.Spec.Containers = nil
		for i := range many {
			nw.Template.Spec.Containers = append(nw.Template.Spec.Containers, corev1.Container{
				Name: fmt.Sprintf("c%d", i), Image: fmt.Sprintf("%s-%d", image, i), ImagePullPolicy: corev1.PullAlways,
			})
		}
	}
}

// manyWait starts a workload of many containers whose change of the sandbox waits for all
// images; there pushes them.
func manyWait(t *testing.T, n *fakeNode) (r *registry, p *Pool, there func()) {
	r, p = newRegistry(n), n.start(t)
	r.fails = true
	n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.pods, "w") // all that is synced here is a new sandbox
		n.run(r)
		return plan.SyncOutcome{}
	}
	p.Update(workload("w", manyContainers("image:1")))
	n.settle(time.Second)
	p.Update(workload("w", generation(2), manyContainers("absent:2"), onTheHost))
	n.settle(time.Second)
	return r, p, func() {
		r.set(func() {
			r.tries = 0
			for i := range many {
				r.pushed[fmt.Sprintf("absent:2-%d", i)] = true
			}
		})
		n.settle(2 * errorDelay)
	}
}

// replaced is whether a plan has replaced the sandbox.
func (n *fakeNode) replaced() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.synced[1:], func(r plan.SyncRequest) bool { return r.Actions.KillPod })
}

// Many images are confirmed before a kill also by a slow image service, and what it has
// not answered about is not pulled again.
func TestManyImagesAreConfirmed(t *testing.T) {
	for name, take := range map[string]time.Duration{"at once": 0, "slowly": 30 * time.Millisecond, "very slowly": 900 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				r, _, there := manyWait(t, n)
				r.set(func() { n.imagesTake = take })
				there()
				n.settle(10 * time.Second)
				if !n.replaced() || r.tries != many {
					t.Errorf("replaced %v after %d pulls, want %d", n.replaced(), r.tries, many)
				}
			})
		})
	}
}

// An image service that answers with an error, or not at all, holds a kill back until it
// answers; it is asked again, and nothing is pulled for that.
func TestUnansweredImagesAreNotPulledAgain(t *testing.T) {
	for name, tt := range map[string]struct{ broken func(*fakeNode) }{
		"hangs": {func(n *fakeNode) { n.imagesHang = true }},
		"fails for one": {func(n *fakeNode) {
			n.imagesFail = map[string]bool{"sha256:absent:2-7": true}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				r, _, there := manyWait(t, n)
				r.set(func() { tt.broken(n) })
				there()
				n.settle(10 * time.Minute)
				if n.replaced() || r.tries != many || n.waits("w") == nil {
					t.Errorf("replaced %v after %d pulls, want %d, condition %+v", n.replaced(), r.tries, many, n.waits("w"))
				}
				r.set(func() { n.imagesHang, n.imagesFail = false, nil })
				n.settle(2 * errorDelay)
				if !n.replaced() || r.tries != many {
					t.Errorf("replaced %v after %d pulls, want %d", n.replaced(), r.tries, many)
				}
			})
		})
	}
}

// A runtime that does not answer in time is asked no more for the while: nothing else waits
// longer than one patience.
func TestHangingImageServiceIsNotAskedAboutEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p, there := manyWait(t, n)
		r.set(func() { n.imagesHang = true })
		there()
		n.settle(30 * time.Second)
		p.Wake("w")
		n.settle(2 * imagePatience)
		r.set(func() { n.imagesAsked = 0 })
		p.Wake("w")
		n.settle(5 * imagePatience)
		r.set(func() {
			if n.imagesAsked == 0 || n.imagesAsked > maxQuestions {
				t.Errorf("asked about %d images", n.imagesAsked)
			}
		})
	})
}

// A change of the object that ends the question has nothing pulled again.
func TestChangeWhileImagesAreConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p, there := manyWait(t, n)
		r.set(func() { n.imagesHang = true })
		there()
		for range 20 {
			p.Update(workload("w", generation(2), manyContainers("absent:2"), onTheHost, func(nw *template.Workload) {
				nw.Labels = map[string]string{"at": time.Now().String()}
			}))
			n.settle(100 * time.Millisecond)
		}
		n.settle(time.Minute)
		r.set(func() { n.imagesHang = false })
		n.settle(2 * errorDelay)
		if !n.replaced() || r.tries != many {
			t.Errorf("replaced %v after %d pulls, want %d", n.replaced(), r.tries, many)
		}
	})
}
