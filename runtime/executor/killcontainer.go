// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// stopSlack is how much longer than its timeout a StopContainer may take.
const stopSlack = 2 * time.Minute

// KillContainer kills one container: record, event Killing, preStop hook,
// StopContainer with what is left of the grace period and never less than 2 s.
// A container that the runtime does not know counts as killed; any other error
// of the runtime is returned.
//
// When ctx ends, a hook is cancelled, ctx's error is returned, and the record
// stays open for Resume. A StopContainer under way goes on.
// (kubelet kuberuntime_container.go:killContainer)
func (e *Executor) KillContainer(ctx context.Context, pod *corev1.Pod, id, name string, opts KillOptions) error {
	return e.kill(ctx, pod, id, name, opts, nil)
}

// kill is KillContainer for a container that may have to wait for its turn.
func (e *Executor) kill(ctx context.Context, pod *corev1.Pod, id, name string, opts KillOptions, turns *turns) error {
	t, err := e.resolveTarget(ctx, pod, id, name, opts)
	if opts.FromRecord && isNotFound(err) {
		return nil // gone, and its record with it
	}
	if err != nil {
		return err
	}
	k := newKill(e, t, opts, turns)
	if err := e.enter(k); err != nil {
		return err
	}
	defer e.leave(k)
	if opts.Resume == nil {
		e.containerEvent(pod, name, id, corev1.EventTypeNormal, "Killing", killingMessage(t, opts))
	}
	return k.run(ctx)
}

func newKill(e *Executor, t target, opts KillOptions, turns *turns) *kill {
	k := &kill{e: e, target: t, opts: opts, turns: turns, shortened: make(chan struct{}, 1)}
	if opts.Resume != nil {
		k.resume(*opts.Resume)
		if opts.Override != nil && k.setLimit(time.Now(), *opts.Override) {
			k.applyLimit()
		}
		return k
	}
	grace := graceOf(t, opts)
	k.rec, k.left = newRecord(t, opts, grace), grace.Seconds
	return k
}

// run takes the kill through its phases.
func (k *kill) run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithValues("container", k.container.Name, "trigger", k.opts.Trigger)
	log.Info("Killing container", "graceSeconds", k.left)
	if err := k.runPreStop(ctx); err != nil {
		return fmt.Errorf("preStop hook of container %q: %w", k.container.Name, err)
	}
	if err := k.waitForTurn(ctx); err != nil {
		return fmt.Errorf("wait for the turn of container %q: %w", k.container.Name, err)
	}
	err := k.stop(ctx)
	if errors.Is(err, ErrInterrupted) {
		return err
	}
	k.finish(ctx, err)
	if err == nil {
		k.turns.ended(k.container.Name)
	}
	return err
}

// runPreStop runs the preStop hook, if there is one and time for it, and takes
// what it took off the grace period. A hook that fails, or that is cancelled
// because its time is over, does not keep the kill from going on.
// (kubelet kuberuntime_container.go:executePreStopHook)
func (k *kill) runPreStop(ctx context.Context) error {
	hook := preStopHook(k.container)
	if hook == nil || k.left <= 0 || k.preStopIsOver() {
		return nil
	}
	started := time.Now()
	hookCtx, end := k.begin(ctx, v1alpha1.KillPhasePreStop)
	_, hookErr := k.e.hooks.Run(hookCtx, k.id, k.pod, k.container, hook)
	gaveUp := k.phaseError(ctx, hookCtx)
	outcome := k.preStopOutcome(hookErr)
	end()
	if gaveUp != nil && hookErr != nil {
		return gaveUp
	}
	k.preStopEvent(outcome)
	if hookErr != nil {
		// Without the error, which may hold what the container wrote.
		logr.FromContextOrDiscard(ctx).Info("PreStop hook did not succeed", "container", k.container.Name, "outcome", outcome)
	}
	k.change(func(rec *v1alpha1.KillRecord) {
		rec.PreStop.Outcome = outcome
		rec.PreStop.Seconds += wholeSeconds(time.Since(started))
	})
	return nil
}

func (k *kill) preStopIsOver() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec.PreStop != nil && k.rec.PreStop.Outcome != ""
}

func (k *kill) preStopOutcome(err error) v1alpha1.PreStopOutcome {
	switch {
	case err == nil:
		return v1alpha1.PreStopSucceeded
	case k.timeIsOver():
		return v1alpha1.PreStopTimedOut
	default:
		return v1alpha1.PreStopFailed
	}
}

// preStopEvent tells of a hook that did not succeed, never with its output, so
// that no secret leaks.
func (k *kill) preStopEvent(outcome v1alpha1.PreStopOutcome) {
	message := ""
	switch outcome {
	case v1alpha1.PreStopFailed:
		message = "PreStopHook failed"
	case v1alpha1.PreStopTimedOut:
		message = preStopCancelledMessage
	case v1alpha1.PreStopSucceeded, v1alpha1.PreStopSkipped:
		return
	}
	k.e.containerEvent(k.pod, k.container.Name, k.id, corev1.EventTypeWarning, "FailedPreStopHook", message)
}

const preStopCancelledMessage = "PreStopHook not completed in grace period, cancelled"

// waitForTurn waits for the containers that end before this one, no longer than
// the grace period that is left. (kubelet
// kuberuntime_termination_order.go:waitForTurn)
func (k *kill) waitForTurn(ctx context.Context) error {
	if k.left <= 0 || !k.turns.mustWait(k.container.Name) {
		return nil
	}
	waitCtx, end := k.begin(ctx, v1alpha1.KillPhaseWaitingForTurn)
	k.turns.wait(waitCtx, k.container.Name)
	err := k.phaseError(ctx, waitCtx)
	end()
	return err
}

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
	calls := &stopCalls{k: k, results: make(chan error)}
	err := calls.run(stopCtx, plan.StopTimeout(k.left))
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
	results chan error
	pending int
	// deadline is the earliest of the calls'.
	deadline time.Time
}

// run makes the first call, those that shortenings ask for, and waits for all.
// One that succeeds is enough.
func (s *stopCalls) run(ctx context.Context, timeout int64) error {
	s.call(ctx, timeout)
	var first error
	failed, succeeded := false, false
	for s.pending > 0 {
		select {
		case err := <-s.results:
			s.pending--
			if err == nil || isNotFound(err) {
				succeeded = true
			} else if !failed {
				first, failed = err, true
			}
		case <-s.k.shortened:
			// A container that has stopped needs no second call.
			if less := s.k.stopLimit(); !succeeded && time.Now().Add(seconds(less)).Before(s.deadline) {
				s.call(ctx, less)
			}
		}
	}
	if succeeded {
		return nil
	}
	return first
}

func (s *stopCalls) call(ctx context.Context, timeout int64) {
	now := time.Now()
	s.deadline = now.Add(seconds(timeout))
	s.k.stopping(now, timeout)
	s.pending++
	go func() {
		ctx, cancel := context.WithTimeout(ctx, seconds(timeout)+stopSlack)
		defer cancel()
		s.results <- s.k.e.runtime.StopContainer(ctx, s.k.id, timeout)
	}()
}

// stopping notes a StopContainer call in the record.
func (k *kill) stopping(now time.Time, timeout int64) {
	k.change(func(rec *v1alpha1.KillRecord) {
		rec.Phase = v1alpha1.KillPhaseStopping
		if rec.StopTime == nil {
			rec.StopTime = &metav1.MicroTime{Time: now}
		}
		rec.StopTimeoutSeconds = &timeout
		k.stopDeadline = now.Add(seconds(timeout))
	})
}
