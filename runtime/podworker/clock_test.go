// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A back-off ends by the clock that it was computed with: a restart comes in time
// whatever the node's clock says.
func TestBackoffEndsByTheNodesClock(t *testing.T) {
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run(offset.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				n.clock = clock.New(clock.Config{Offset: func() time.Duration { return offset }})
				n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome {
					return plan.SyncOutcome{BackoffUntil: n.clock.Now().Add(10 * time.Second)}
				}
				n.start(t).Update(workload("a"))
				n.settle(25 * time.Second)
				n.mu.Lock()
				defer n.mu.Unlock()
				if len(n.synced) != 3 {
					t.Errorf("%d tries in 25 s, want one each 10 s", len(n.synced))
				}
			})
		})
	}
}
