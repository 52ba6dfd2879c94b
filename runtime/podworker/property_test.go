// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Once a workload is to end nothing of it is started, whatever happens: a new
// template, an exit, kills that fail.
func TestPropertyTerminatingStartsNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if t.Failed() {
			return
		}
		script := drawScript(rt)
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(t)
			failures := script.killFailures
			n.killing = func(_ context.Context, r plan.KillRequest) error {
				time.Sleep(script.killTakes)
				if failures--; failures >= 0 {
					return errors.New("the runtime fails")
				}
				n.kill(r)
				return nil
			}
			p := n.start(t)
			p.Update(workload("a"))
			n.settle(script.livesFor)
			if script.exitsBefore {
				// The worker does not know yet.
				n.exit("a", 1)
			}
			n.mu.Lock()
			before := len(n.synced)
			n.mu.Unlock()
			p.Update(workload("a", deleted(&script.grace)))
			synctest.Wait()
			for _, event := range script.events {
				script.do(n, p, event)
			}
			n.settle(10 * time.Minute)
			n.mu.Lock()
			after := len(n.synced)
			n.mu.Unlock()
			if after != before {
				t.Errorf("%d plans were carried out after the deletion: %q", after-before, n.log())
			}
			if !n.did("release a") {
				t.Errorf("not released: %q", n.log())
			}
		})
	})
}

// script is the life of a workload whose end was asked for.
type script struct {
	livesFor, killTakes time.Duration
	exitsBefore         bool
	killFailures        int
	grace               int64
	events              []string
}

func drawScript(rt *rapid.T) script {
	return script{
		livesFor:     time.Duration(rapid.IntRange(0, 3).Draw(rt, "livesFor")) * time.Second,
		killTakes:    time.Duration(rapid.IntRange(0, 30).Draw(rt, "killTakes")) * time.Second,
		exitsBefore:  rapid.Bool().Draw(rt, "exitsBefore"),
		killFailures: rapid.IntRange(0, 2).Draw(rt, "killFailures"),
		grace:        rapid.Int64Range(0, 60).Draw(rt, "grace"),
		events: rapid.SliceOfN(rapid.SampledFrom([]string{
			"new image", "as before the deletion", "exit", "wake", "shorter", "wait",
		}), 0, 5).Draw(rt, "events"),
	}
}

func (s *script) do(n *fakeNode, p *Pool, event string) {
	switch event {
	case "new image":
		p.Update(workload("a", deleted(&s.grace), image("image:2"), generation(3)))
	case "as before the deletion":
		// A cache may answer with what was.
		p.Update(workload("a"))
	case "exit":
		n.exit("a", 1)
		p.Wake("a")
	case "wake":
		p.Wake("a")
	case "shorter":
		s.grace /= 2
		p.Update(workload("a", deleted(&s.grace)))
	case "wait":
		n.settle(11 * time.Second)
	}
}

// A container that cannot be killed in a sync is reported as one that cannot be
// killed at the end, until it can.
func TestKillFailingInASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		failing := true
		n.mu.Lock()
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			if failing {
				return plan.SyncOutcome{Err: errors.New("kill failed"), KillError: "c: the runtime does not know its state"}
			}
			n.run(r)
			return plan.SyncOutcome{}
		}
		n.mu.Unlock()
		p.Update(workload("a", image("image:2"), generation(2)))
		n.settle(time.Minute)
		c := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionKillFailing)
		if c == nil || !strings.Contains(c.Message, "does not know its state") {
			t.Errorf("condition %+v", c)
		}
		if n.did("start c image:2") {
			t.Error("started beside what could not be killed")
		}
		n.mu.Lock()
		failing = false
		n.mu.Unlock()
		n.settle(time.Minute)
		if c := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionKillFailing); c != nil {
			t.Errorf("condition %+v, want none once the kill succeeded", c)
		}
	})
}
