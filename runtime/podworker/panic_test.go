// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Events do not shorten the back-off after a panic.
func TestPanicBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome { panic("a bug") }
		p := n.start(t)
		p.Update(workload("a"))
		for range 60 {
			n.settle(time.Second)
			p.Wake("a")
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if tries := len(n.synced); tries < 2 || tries > 5 {
			t.Errorf("%d tries in a minute, want one after 5 s, 10 s, 20 s, ...", tries)
		}
	})
}

// An operation never outlives the step that began it.
func TestAttendWaitsAlthoughItPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		signal(wake)
		ended := false
		defer func() {
			if r := recover(); r != "a bug" || !ended {
				t.Errorf("recovered %v, the operation has ended: %t", r, ended)
			}
		}()
		attend(t.Context(), wake, func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Minute) // such as a kill, which nothing cancels
			ended = true
		}, func(func()) { panic("a bug") })
	})
}
