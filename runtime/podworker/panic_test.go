// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

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

// A panic outside the steps of a worker ends neither the process nor the worker.
func TestPanicWhileAWorkerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.restore(t)
		calls := 0
		p.cfg.Removed = func(Identity) {
			calls++
			panic("a bug")
		}
		n.begin(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		if calls != 1 || len(p.Known()) > 0 {
			t.Errorf("removed %d times, want 1; %d workers left", calls, len(p.Known()))
		}
		p.Update(workload("b"))
		n.settle(time.Minute)
		if st := n.published("b"); st.Summary != "Running" {
			t.Errorf("the next workload: %q", st.Summary)
		}
	})
}

// A panic before a checkpoint is written, or before a status is, is a failed write.
func TestPanicBeforeAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		ctx, cancel := context.WithCancel(t.Context())
		s := &saver{log: logr.Discard(), request: make(chan struct{}, 1), turn: make(chan struct{}, 1), ended: make(chan struct{})}
		a := &announcer{log: logr.Discard(), metrics: NewMetrics(reg), news: make(chan struct{}, 1)}
		signal(a.news)
		end := make(chan struct{})
		var parts sync.WaitGroup
		parts.Go(func() { s.run(end) })
		parts.Go(func() { a.run(ctx) })
		time.Sleep(time.Minute) // without a memory each look at it panics
		close(end)
		cancel()
		parts.Wait()
		if len(s.turn) > 0 {
			t.Error("the turn is not given back")
		}
		if got := counted(t, reg, "managedworkload_shim_worker_panics_total"); got < 2 {
			t.Errorf("%v panics counted, want one for each try", got)
		}
	})
}
