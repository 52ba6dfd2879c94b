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

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// KillContainer kills one container: record, event Killing, preStop hook,
// StopContainer with what is left of the grace period and never less than 2 s.
// A container that the runtime does not know counts as killed; any other error
// of the runtime is returned.
//
// When ctx ends, a hook is cancelled, ctx's error is returned, and the record
// stays open for Resume. A StopContainer under way continues.
// (kubelet kuberuntime_container.go:killContainer)
func (e *Executor) KillContainer(ctx context.Context, pod *corev1.Pod, decided plan.Kill) error {
	k := e.newKill(pod, decided)
	turns, leave := e.takeTurns(pod.UID, []plan.Kill{decided})
	defer leave()
	k.turns = turns
	_, err := k.inTurn(ctx)
	return err
}

// newKill returns a kill that is about to begin.
func (e *Executor) newKill(pod *corev1.Pod, decided plan.Kill) *kill {
	return &kill{e: e, pod: pod, Kill: decided, shortened: make(chan struct{}, 1)}
}

// execute takes a kill from its begin, or from where it was cut off, to its end.
func (k *kill) execute(ctx context.Context) error {
	e := k.e
	if k.Container == nil {
		return e.errNoContainer(k.pod, k.Kill)
	}
	before, err := e.containerStatus(ctx, k.ID)
	if err == nil {
		k.before = &before
	}
	k.missing = runtimeerror.IsNotFound(err)
	k.start()
	if err := e.enter(k); err != nil {
		return err
	}
	defer e.leave(k)
	if k.open == nil {
		e.containerEvent(k.pod, k.Name, k.ID, corev1.EventTypeNormal, "Killing", k.EventMessage())
	}
	return k.run(ctx)
}

// start begins the record, or continues one.
func (k *kill) start() {
	k.begun = time.Now()
	if k.open == nil {
		k.rec, k.left = newRecord(k), k.Grace.Seconds
		k.ends = k.begun.Add(seconds(k.left))
		return
	}
	k.resume()
	if k.limitTo != nil && k.setLimit(time.Now(), k.limitTo.Seconds) {
		k.applyLimit()
	}
}

// run takes the kill through its phases.
func (k *kill) run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithValues("container", k.Name, "trigger", k.Trigger)
	log.Info("Killing container", "graceSeconds", k.left)
	if err := k.runPreStop(ctx); err != nil {
		return fmt.Errorf("preStop hook of container %q: %w", k.Name, err)
	}
	if err := k.waitForTurn(ctx); err != nil {
		return fmt.Errorf("wait for the turn of container %q: %w", k.Name, err)
	}
	if k.passed != nil {
		k.passed()
	}
	err := k.stop(ctx)
	if errors.Is(err, ErrInterrupted) {
		return err
	}
	if err := k.finish(ctx, err); err != nil {
		return err
	}
	k.turns.ended(k.Name)
	return nil
}

// waitForTurn waits for the containers that end before this one, no longer than
// the grace period that is left. (kubelet
// kuberuntime_termination_order.go:waitForTurn)
func (k *kill) waitForTurn(ctx context.Context) error {
	waitsFor := k.WaitsWithin(k.left)
	if !k.turns.mustWait(waitsFor) || k.hasExited() {
		return nil
	}
	waitCtx, end := k.begin(ctx, v1alpha1.KillPhaseWaitingForTurn)
	noted := k.awaitReached(ctx) // when the time of the wait began, for the next process
	k.turns.wait(waitCtx, waitsFor)
	noted()
	err := k.phaseError(ctx, waitCtx)
	end()
	k.ended(&k.waitEnded)
	return err
}
