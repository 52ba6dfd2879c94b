// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A container is reported as running, and probed, only when its postStart hook has ended, however often
// its worker is woken meanwhile; the others are as they are.
func TestAContainerInItsPostStartHookIsNotReady(t *testing.T) {
	for name, begin := range map[string]func(*fakeNode, *Pool){
		"the pod's first start": func(*fakeNode, *Pool) {},
		"after a kill beside the steps": func(n *fakeNode, p *Pool) {
			n.mu.Lock()
			n.verdicts = map[string]plan.ProbeResults{newest(n.pods["a"].containers).ID: {Liveness: plan.ProbeFailure}}
			n.mu.Unlock()
			p.Wake("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				first := name == "the pod's first start"
				hooks := make(chan struct{})
				n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
					n.mu.Lock()
					n.run(r)
					starts := len(r.Actions.ContainersToStart) > 0 && (first || len(r.Actions.ContainersToKill) > 0)
					if starts {
						n.starting = map[string]bool{newest(n.pods["a"].containers).ID: true}
					}
					n.mu.Unlock()
					if starts {
						<-hooks
						n.mu.Lock()
						n.starting = nil
						n.mu.Unlock()
					}
					return plan.SyncOutcome{Tried: map[string]plan.Reason{"a": {Reason: "CrashLoopBackOff"}}}
				}
				p := n.start(t)
				p.Update(workload("a", three))
				n.settle(time.Second)
				begin(n, p)
				n.settle(time.Millisecond)
				for range 3 {
					n.settle(busyRefresh)
					p.Wake("a")
				}
				n.settle(time.Second)
				if err := errors.Join(readiness(n, false), probed(n, false)); err != nil {
					t.Errorf("while the hook of a runs: %v", err)
				}
				hooks <- struct{}{}
				n.settle(time.Second)
				if err := errors.Join(readiness(n, true), probed(n, true)); err != nil {
					t.Errorf("after the hook: %v", err)
				}
			})
		})
	}
}

// readiness is an error if a is not as wanted in the status, or another container is not ready.
func readiness(n *fakeNode, a bool) error {
	for _, c := range n.published("a").ContainerStatuses {
		if want := a || c.Name != "a"; c.Ready != want || (c.State.Running != nil) != want || !want && c.State.Waiting.Reason != "ContainerCreating" {
			return errors.New(c.Name + ": " + c.String())
		}
	}
	return nil
}

// probed is an error if a does not run, for the prober, as wanted.
func probed(n *fakeNode, want bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := newest(n.probedOf.Containers).State == plan.ContainerRunning; got != want {
		return fmt.Errorf("the prober gets container a as running: %t", got)
	}
	return nil
}

// newest is a's newest instance.
func newest(containers []plan.ContainerStatus) plan.ContainerStatus {
	for _, c := range containers {
		if c.Name == "a" {
			return c
		}
	}
	return plan.ContainerStatus{}
}

// Kills that were decided for a template that has changed since are said to be out of date; a worker that is
// only woken says nothing.
func TestKillsForAnotherTemplateAreOutOfDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome {
			time.Sleep(time.Minute)
			return plan.SyncOutcome{}
		}
		outdated := func() int {
			n.settle(time.Second)
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.outdated
		}
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Second)
		p.Wake("a")
		if got := outdated(); got != 0 {
			t.Errorf("a wake: %d", got)
		}
		p.Update(workload("a", generation(3)))
		if got := outdated(); got == 0 {
			t.Error("the change was taken back: not said")
		}
	})
}
