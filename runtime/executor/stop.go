// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// stopSlack is how much longer than its timeout a StopContainer may take.
const stopSlack = 2 * time.Minute

// stop calls StopContainer with what is left of the grace period, and once more
// with less whenever that is shortened. It returns when all calls have.
func (k *kill) stop(ctx context.Context) error {
	stopCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	k.beginStop(cancel)
	defer k.beginStop(nil)
	if k.e.isInterrupted() {
		return ErrInterrupted
	}
	calls := &stopCalls{k: k, results: make(chan stopResult)}
	err := calls.run(stopCtx, k.left)
	if errors.Is(context.Cause(stopCtx), ErrInterrupted) {
		return ErrInterrupted
	}
	return err
}

// beginStop says how an interruption ends the last phase, and takes a
// shortening into account that came between the phases.
func (k *kill) beginStop(cancel context.CancelCauseFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel = cancel
	k.applyLimit()
}

// stopCalls are the StopContainer calls of one kill.
type stopCalls struct {
	k       *kill
	results chan stopResult
	pending int
	// deadline is the earliest of the calls', and overdue is when a container that is paused
	// does not end by the last of them alone.
	deadline time.Time
	overdue  <-chan time.Time
}

// stopResult is what became of one call, which was to end in force at deadline.
type stopResult struct {
	err      error
	deadline time.Time
}

// run makes the first call, those that shortenings ask for, and waits for all.
// One that succeeds is enough.
func (s *stopCalls) run(ctx context.Context, left int64) error {
	s.call(ctx, s.k.Stop(left))
	defer s.k.awaitReached(ctx)()
	var first error
	failed, succeeded := false, false
	for s.pending > 0 {
		select {
		case r := <-s.results:
			s.pending--
			switch {
			case r.err == nil:
				succeeded = true
				s.k.stopped(r.deadline, time.Now())
			case runtimeerror.IsNotFound(r.err):
				succeeded = true
			case !failed:
				first, failed = r.err, true
			}
		case <-s.overdue:
			s.k.thaw(ctx)
		case <-s.k.shortened:
			// A container that has stopped needs no second call.
			if less := s.k.Stop(s.k.limitLeft()); !succeeded && time.Now().Add(seconds(less.TimeoutSeconds)).Before(s.deadline) {
				s.call(ctx, less)
			}
		}
	}
	if succeeded {
		return nil
	}
	return first
}

func (s *stopCalls) call(ctx context.Context, stop plan.Stop) {
	s.k.stopping(stop.TimeoutSeconds, s.pending == 0)
	deadline := time.Now().Add(seconds(stop.TimeoutSeconds))
	s.deadline, s.overdue = deadline, time.After(stop.ThawAfter())
	s.k.calling(deadline)
	s.pending++
	go func() {
		ctx, cancel := context.WithTimeout(ctx, seconds(stop.TimeoutSeconds)+stopSlack)
		defer cancel()
		err := panics.Contain(logr.FromContextOrDiscard(ctx), "StopContainer", func() error {
			return s.k.e.runtime.StopContainer(ctx, stop.ID, stop.TimeoutSeconds)
		})
		s.results <- stopResult{err, deadline}
	}()
}

// calling notes a call of StopContainer that is about to be made.
func (k *kill) calling(deadline time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked.IsZero() {
		k.asked = time.Now()
	}
	k.stopEnd, k.phaseEnd = deadline, deadline // the record may have waited for the disk
}

// hadItsTime says whether the container had all the time it was to have.
func (k *kill) hadItsTime() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.stopEnd.IsZero() && !time.Now().Before(k.stopEnd)
}

// stopped notes when a call that saw the container stop would have forced it. One
// that failed forced nothing.
func (k *kill) stopped(deadline, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stoppedAt.IsZero() {
		k.stoppedAt = now
	}
	if k.forcedFrom.IsZero() || deadline.Before(k.forcedFrom) {
		k.forcedFrom = deadline
	}
}

// stopping notes a StopContainer call in the record. One that continues what
// an earlier process began has the rest of that one's time: the record keeps the
// whole, from which the outcome is derived.
func (k *kill) stopping(timeout int64, first bool) {
	now := k.e.clock.Now()
	k.change(func(rec *v1alpha1.KillRecord) {
		rec.Phase, k.fresh = v1alpha1.KillPhaseStopping, 0
		if first {
			k.fresh = timeout
		}
		k.phaseEnd = time.Now().Add(seconds(timeout))
		if rec.StopTime == nil {
			rec.StopTime = &metav1.MicroTime{Time: now}
		}
		if rec.StopTimeoutSeconds == nil || rec.Grace.ShortenedFromSeconds != nil {
			rec.StopTimeoutSeconds = &timeout
		}
	})
}
