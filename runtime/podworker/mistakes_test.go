// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A deletion does not wait until a worker has calmed down after an error or a panic.
func TestDeletionInACalmDown(t *testing.T) {
	tests := map[string]func() plan.SyncOutcome{
		"after an error": func() plan.SyncOutcome { return plan.SyncOutcome{Err: errors.New("no image")} },
		"after a panic":  func() plan.SyncOutcome { panic("a bug") },
	}
	for name, fail := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome { return fail() }
				p := n.start(t)
				p.Update(workload("a"))
				n.settle(100 * time.Millisecond)
				begun := time.Now()
				var after time.Duration
				n.mu.Lock()
				n.killing = func(_ context.Context, r plan.KillRequest) error {
					after = time.Since(begun)
					n.kill(r)
					return nil
				}
				n.mu.Unlock()
				p.Update(workload("a", deleted(nil)))
				n.settle(time.Minute)
				if len(n.killed) != 1 || after != 0 {
					t.Errorf("%d kills, the first %v after the deletion, want one at once", len(n.killed), after)
				}
			})
		})
	}
}

// Entries of the back-off that are too old to count are forgotten.
func TestBackoffExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			r.Backoff["old"] = &plan.Backoff{Current: time.Minute, LastUpdate: time.Now().Add(-plan.DefaultBackoffExpire - time.Second)}
			r.Backoff["young"] = &plan.Backoff{Current: time.Minute, LastUpdate: time.Now()}
			return plan.SyncOutcome{}
		}
		n.start(t).Update(workload("a"))
		n.settle(time.Second)
		saved, err := n.store.Load()
		if err != nil || len(saved) != 1 || len(saved[0].Backoff) != 1 || saved[0].Backoff["young"] == nil {
			t.Errorf("checkpoints %+v, error %v, want the young entry alone", saved, err)
		}
	})
}

// A sandbox that is ready is stopped before it is removed: a runtime may refuse, or leave
// its network behind.
func TestReadySandboxIsStoppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		log := n.log()
		stop, remove := slices.Index(log, "stop sandbox sandbox-a"), slices.Index(log, "remove sandbox sandbox-a")
		if stop < 0 || remove < stop {
			t.Errorf("calls %q", log)
		}
	})
}

// The boot of the node is that of the process that runs: another one after it must not
// take the kills of this boot for those of an earlier.
func TestNewBootIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		err := n.store.Save(&Checkpoint{
			Identity: Identity{UID: "a", Namespace: "ns", Name: "a"}, State: Syncing, BootID: "earlier", Generation: 1, Pod: template.Pod(workload("a")),
		})
		if err != nil {
			t.Fatal(err)
		}
		n.start(t)
		n.settle(time.Second)
		if saved, err := n.store.Load(); err != nil || len(saved) != 1 || saved[0].BootID != "boot" {
			t.Errorf("checkpoints %+v, error %v, want the boot of now", saved, err)
		}
	})
}
