// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// moments of a start that a runtime goes through by itself, whoever waits for it.
type moments struct {
	restartAfter, createdAfter, runningAfter time.Duration
	cutOff                                   bool
	deletedAfter                             time.Duration
	wakes                                    []int // milliseconds between them
	apiAwayFor                               time.Duration
	refusals                                 int
}

func drawMoments(rt *rapid.T) moments {
	ms := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(rt, name)) * time.Millisecond
	}
	return moments{
		restartAfter: ms("restartAfter", 50), createdAfter: ms("createdAfter", 50), runningAfter: ms("runningAfter", 80),
		cutOff:       rapid.Bool().Draw(rt, "cutOff"),
		deletedAfter: ms("deletedAfter", 400),
		wakes:        rapid.SliceOfN(rapid.IntRange(0, 200), 0, 6).Draw(rt, "wakes"),
		apiAwayFor:   ms("apiAwayFor", 3000),
		refusals:     rapid.IntRange(0, 2).Draw(rt, "refusals"),
	}
}

// However a deletion meets a restart, the workload ends soon: nothing waits for a
// look that nothing asks for, and nothing runs when the object is released.
func TestPropertyDeletionMeetsRestart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMoments(rt)
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(t)
			n.syncing = func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome { return n.restart(ctx, r, m) }
			n.killing = func(_ context.Context, r plan.KillRequest) error {
				if len(running(r.Observed)) > 0 {
					time.Sleep(20 * time.Millisecond)
					n.kill(r)
				}
				return nil
			}
			refusals := m.refusals
			n.removing = func(string) error {
				if p := n.pods["a"]; p != nil && p.containers[0].State == plan.ContainerCreated {
					return errors.New("container is in starting state, can't be removed")
				}
				if refusals--; refusals >= 0 {
					return errors.New("the runtime fails")
				}
				return nil
			}
			p := n.start(t)
			p.Update(workload("a"))
			go func() {
				for _, after := range m.wakes {
					time.Sleep(time.Duration(after) * time.Millisecond)
					p.Wake("a")
				}
			}()
			time.Sleep(m.deletedAfter)
			n.setAPI(m.apiAwayFor > time.Second)
			p.Update(workload("a", deleted(nil)))
			time.Sleep(m.apiAwayFor)
			n.setAPI(false)
			// Each refusal costs a wait of its own, as does a start that came too late.
			n.settle(time.Duration(m.refusals+3)*errorDelay*3/2 + publishRetryMax)
			if !n.did("release a") {
				t.Errorf("%+v: not released: %q", m, n.log())
			}
			for _, pod := range n.pods {
				if st := (&plan.PodStatus{Containers: pod.containers}); len(running(st)) > 0 {
					t.Errorf("%+v: it runs on: %q", m, n.log())
				}
			}
		})
	})
}

func (n *fakeNode) setAPI(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apiDown = down
}

// restart creates and starts a container as a runtime does, which continues with a
// start when its caller has given up.
func (n *fakeNode) restart(ctx context.Context, r plan.SyncRequest, m moments) plan.SyncOutcome {
	wait := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	if !wait(m.restartAfter) {
		return plan.SyncOutcome{Err: ctx.Err()}
	}
	n.mu.Lock()
	n.run(r)
	created := n.pods["a"]
	created.containers[0].State = plan.ContainerCreated
	n.mu.Unlock()
	if !wait(m.createdAfter) {
		n.mu.Lock()
		defer n.mu.Unlock()
		created.containers[0].State = plan.ContainerExited
		return plan.SyncOutcome{Err: ctx.Err()}
	}
	started := make(chan struct{})
	go func() {
		defer close(started)
		time.Sleep(m.runningAfter)
		n.mu.Lock()
		defer n.mu.Unlock()
		if created.containers[0].State == plan.ContainerCreated {
			created.containers[0].State = plan.ContainerRunning
		}
	}()
	if m.cutOff {
		select {
		case <-ctx.Done():
			return plan.SyncOutcome{Err: ctx.Err()}
		case <-started:
		}
	}
	<-started
	// It fails its probe at once.
	if !wait(5 * time.Millisecond) {
		return plan.SyncOutcome{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop("a", 1)
	return plan.SyncOutcome{}
}
