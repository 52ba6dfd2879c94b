// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// runPreStop runs the preStop hook, if there is one and time for it, and takes
// what it took off the grace period. A hook that fails, or that is cancelled
// because its time is over, does not keep the kill from going on.
// (kubelet kuberuntime_container.go:executePreStopHook)
func (k *kill) runPreStop(ctx context.Context) error {
	hook := k.PreStopWithin(k.left)
	if hook == nil || k.preStopIsOver() {
		return nil
	}
	started := time.Now()
	hookCtx, end := k.begin(ctx, v1alpha1.KillPhasePreStop)
	_, hookErr := k.e.hooks.Run(hookCtx, k.ID, k.pod, k.Container, hook)
	gaveUp := k.phaseError(ctx, hookCtx)
	outcome := k.preStopOutcome(hookErr)
	end()
	if gaveUp != nil && hookErr != nil {
		return gaveUp
	}
	k.preStopEvent(outcome)
	if hookErr != nil {
		// Without the error, which may hold what the container wrote.
		logr.FromContextOrDiscard(ctx).Info("PreStop hook did not succeed", "container", k.Name, "outcome", outcome)
	}
	k.change(func(rec *v1alpha1.KillRecord) {
		rec.PreStop.Outcome = outcome
		rec.PreStop.Seconds += wholeSeconds(time.Since(started))
	})
	return nil
}

// preStopIsOver tells whether this kill's hook has ended, or there was none when
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
	k.e.containerEvent(k.pod, k.Name, k.ID, corev1.EventTypeWarning, "FailedPreStopHook", message)
}

const preStopCancelledMessage = "PreStopHook not completed in grace period, cancelled"
