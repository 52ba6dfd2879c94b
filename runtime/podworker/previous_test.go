// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The plan knows the template that a container was made from, also when others came
// before it was carried out, and after a restart of the shim.
func TestKillsNameChangedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		check := func(when string, n *fakeNode) {
			t.Helper()
			n.mu.Lock()
			defer n.mu.Unlock()
			kills := n.synced[len(n.synced)-1].Actions.ContainersToKill
			if len(kills) != 1 || !slices.Equal(kills[0].ChangedFields, []string{"image"}) {
				t.Errorf("%s: kills %+v", when, kills)
			}
		}
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Second)
		check("one change", n)

		n.mu.Lock()
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome {
			return plan.SyncOutcome{Err: context.Canceled}
		}
		n.mu.Unlock()
		p.Update(workload("a", generation(3), image("image:3")))
		n.settle(time.Minute)
		p.Update(workload("a", generation(4), image("image:4")))
		n.settle(time.Minute)
		check("two changes", n)
		n.mu.Lock()
		n.syncing = nil
		n.mu.Unlock()
		n.settle(time.Hour)

		m := restarted(t, n)
		p = m.start(t)
		m.settle(time.Second)
		p.Update(workload("a", generation(5), image("image:5")))
		m.settle(time.Second)
		check("after a restart", m)
		if p.workers["a"].mem.peek().previous != nil {
			t.Error("the template before is kept although nothing of it runs")
		}
	})
}
