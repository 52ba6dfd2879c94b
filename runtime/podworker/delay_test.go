// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A kill that failed because the runtime did not answer for a moment is tried again
// soon, and less and less often while it continues to fail.
func TestFailedKillIsRetriedSoon(t *testing.T) {
	tests := map[string]func(n *fakeNode, p *Pool, try func() error){
		"of a termination": func(n *fakeNode, p *Pool, try func() error) {
			n.mu.Lock()
			n.killing = func(_ context.Context, r plan.KillRequest) error {
				err := try()
				if err == nil {
					n.kill(r)
				}
				return err
			}
			n.mu.Unlock()
			p.Update(workload("a", deleted(nil)))
		},
		"of a sync": func(n *fakeNode, p *Pool, try func() error) {
			n.mu.Lock()
			n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
				if err := try(); err != nil {
					return plan.SyncOutcome{Err: err, KillError: err.Error()}
				}
				n.mu.Lock()
				defer n.mu.Unlock()
				n.run(r)
				return plan.SyncOutcome{}
			}
			n.mu.Unlock()
			p.Update(workload("a", image("image:2"), generation(2)))
		},
	}
	for name, begin := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				p := n.start(t)
				p.Update(workload("a"))
				n.settle(time.Second)
				var tries []time.Time
				begin(n, p, func() error {
					if tries = append(tries, time.Now()); len(tries) <= 6 {
						return errors.New("unavailable")
					}
					return nil
				})
				n.settle(2 * time.Minute)
				if len(tries) != 7 {
					t.Fatalf("%d tries, want 7", len(tries))
				}
				for i, least := range []time.Duration{1, 2, 4, 8, 10, 10} {
					least *= time.Second
					if wait := tries[i+1].Sub(tries[i]); wait < least || wait > least*3/2 {
						t.Errorf("try %d came after %s, want %s and up to half of it more", i+2, wait, least)
					}
				}
			})
		})
	}
}

// So is one whose worker could not see how it came out: the runtime was away for a
// moment longer.
func TestFailedKillIsRetriedSoonAfterARuntimeThatWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		away := func(err error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.observeErr = err
		}
		var tries []time.Time
		n.mu.Lock()
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			if tries = append(tries, time.Now()); len(tries) == 1 {
				away(errors.New("unavailable"))
				time.AfterFunc(2*time.Second, func() { away(nil) })
				return plan.SyncOutcome{Err: errors.New("unavailable"), KillError: "unavailable"}
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			return plan.SyncOutcome{}
		}
		n.mu.Unlock()
		p.Update(workload("a", image("image:2"), generation(2)))
		n.settle(time.Minute)
		if len(tries) != 2 || tries[1].Sub(tries[0]) > 5*time.Second {
			t.Errorf("tries at %v, want the second within 5 s of the first", tries)
		}
	})
}
