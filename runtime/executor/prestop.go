// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// runPreStop runs the preStop hook, if there is one and time for it, and takes
// what it took off the grace period. A hook that fails, or that is cancelled
// because its time is over, does not stop the kill.
// (kubelet kuberuntime_container.go:executePreStopHook)
func (k *kill) runPreStop(ctx context.Context) error {
	hook := k.PreStopWithin(k.left)
	if hook == nil || k.preStopIsOver() {
		return nil
	}
	started := time.Now()
	hookCtx, end := k.begin(ctx, v1alpha1.KillPhasePreStop)
	defer k.awaitReached(ctx)()
	hookErr := k.runHook(hookCtx, hook)
	gaveUp := k.phaseError(ctx, hookCtx)
	outcome := k.preStopOutcome(hookErr)
	end()
	k.ended(&k.hookEnded)
	if gaveUp != nil && hookErr != nil {
		return gaveUp
	}
	if k.e.differences.CancelHooks {
		k.preStopEvent(outcome)
	}
	if hookErr != nil {
		// Without the error, which may hold what the container wrote.
		logr.FromContextOrDiscard(ctx).Info("PreStop hook did not succeed", "container", k.Name, "outcome", outcome)
	}
	k.change(func(rec *v1alpha1.KillRecord) {
		k.fresh = 0
		rec.PreStop.Outcome = outcome
		rec.PreStop.Seconds += wholeSeconds(time.Since(started))
	})
	return nil
}

// runHook runs the preStop hook until it has ended or its time is over. Without
// Differences.CancelHooks a hook whose time is over runs on, and reports its failure
// itself when it ends; AwaitHooks waits for it.
func (k *kill) runHook(ctx context.Context, hook *corev1.LifecycleHandler) error {
	run := func(ctx context.Context) error {
		_, err := k.e.hooks.Run(ctx, k.ID, k.pod, k.Container, hook)
		return err
	}
	if k.e.differences.CancelHooks {
		return run(ctx)
	}
	ended := make(chan error, 1)
	k.e.hooksRunning.Go(func() {
		err := panics.Contain(logr.FromContextOrDiscard(ctx), "the preStop hook of container "+k.Name, func() error {
			return run(context.WithoutCancel(ctx))
		})
		if err != nil {
			k.preStopEvent(v1alpha1.PreStopFailed)
		}
		ended <- err
	})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AwaitHooks waits for the preStop hooks that still run although their kills do not
// wait for them any more; with Differences.CancelHooks there are none.
func (e *Executor) AwaitHooks() { e.hooksRunning.Wait() }

// preStopIsOver reports whether this kill's hook has ended, or there was none when
// the kill began: a template may have got one since.
func (k *kill) preStopIsOver() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec.PreStop == nil || k.rec.PreStop.Outcome != ""
}

func (k *kill) preStopOutcome(err error) v1alpha1.PreStopOutcome {
	switch {
	case err == nil:
		return v1alpha1.PreStopSucceeded
	case k.hasExited():
		return v1alpha1.PreStopFailed
	case k.timeIsOver():
		return v1alpha1.PreStopTimedOut
	default:
		return v1alpha1.PreStopFailed
	}
}

// preStopEvent reports a hook that did not succeed, never with its output, so
// that no secret leaks.
func (k *kill) preStopEvent(outcome v1alpha1.PreStopOutcome) {
	message := ""
	switch outcome {
	case v1alpha1.PreStopFailed:
		if message = "PreStopHook failed"; k.hasExited() {
			message = preStopExitedMessage
		}
	case v1alpha1.PreStopTimedOut:
		message = preStopCancelledMessage
	case v1alpha1.PreStopSucceeded, v1alpha1.PreStopSkipped:
		return
	}
	k.e.containerEvent(k.pod, k.Name, k.ID, corev1.EventTypeWarning, "FailedPreStopHook", message)
}

const (
	preStopCancelledMessage = "PreStopHook not completed in grace period, cancelled"
	preStopExitedMessage    = "PreStopHook not completed, the container has exited"
)
