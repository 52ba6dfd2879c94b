// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A start that the runtime finishes by itself, although nothing waits for it any
// more, can come after the kill: the container is killed too, with its grace
// period, and does not keep the workload forever.
func TestStartThatOutlivesTheKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.syncing = func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			n.run(r)
			n.pods["a"].containers[0].State = plan.ContainerCreated
			n.mu.Unlock()
			<-ctx.Done()
			return plan.SyncOutcome{Err: ctx.Err()}
		}
		n.killing = func(_ context.Context, r plan.KillRequest) error {
			if len(running(r.Observed)) > 0 {
				n.kill(r)
			}
			return nil
		}
		n.removing = func(string) error {
			if c := &n.pods["a"].containers[0]; c.State == plan.ContainerCreated {
				c.State = plan.ContainerRunning
				return errors.New("container is in starting state, can't be removed")
			}
			return nil
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		if !n.did("release a") {
			t.Errorf("not released: %q", n.log())
		}
		last := n.killed[len(n.killed)-1]
		if len(running(last.Observed)) != 1 || last.Override.Seconds != 30 {
			t.Errorf("last kill %+v, want one of the container that runs, with its grace period", last)
		}
	})
}

// A deletion that arrives while the kills of an earlier process are finished is
// not taken for one that the next operation would hear about.
func TestDeletionWhileResuming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.start(t).Update(workload("a"))
		n.settle(time.Second)
		n.pool.Kill("a", plan.KillProgress{Record: v1alpha1.KillRecord{
			ID: "1", Container: "c", Trigger: v1alpha1.TriggerLivenessProbe, Phase: v1alpha1.KillPhaseStopping, StartTime: metav1.NowMicro(),
		}})
		n.settle(time.Second)

		m := restarted(t, n)
		m.apiDown = false
		resumed := make(chan struct{})
		m.resuming = func([]plan.KillProgress) error { <-resumed; return nil }
		m.syncing = func(ctx context.Context, _ plan.SyncRequest) plan.SyncOutcome {
			<-ctx.Done()
			return plan.SyncOutcome{Err: ctx.Err()}
		}
		p := m.start(t)
		m.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		m.settle(time.Second)
		m.exit("a", 137)
		close(resumed)
		m.settle(5 * time.Second)
		if len(m.synced) != 0 || !m.did("release a") {
			t.Errorf("%d plans after the deletion, calls %q", len(m.synced), m.log())
		}
	})
}
