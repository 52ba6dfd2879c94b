// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// NoteExits looks whether containers have exited, or are gone, whose kills have not asked them to stop yet:
// their hooks and waits end then, because nothing is left to wait for. It is to be called when
// the runtime has news of a pod whose kills are under way.
func (e *Executor) NoteExits(ctx context.Context, podUID types.UID) {
	if !e.differences.CancelHooks {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for _, k := range e.underWay(podUID) {
		if !k.unasked() {
			continue
		}
		s, err := e.runtime.ContainerStatus(ctx, k.ID)
		if err == nil && s.State == plan.ContainerExited || runtimeerror.IsNotFound(err) {
			k.exited()
		}
	}
}

// unasked is whether the kill runs its hook or waits for its turn.
func (k *kill) unasked() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unaskedLocked()
}

func (k *kill) unaskedLocked() bool {
	return k.cancel != nil && k.exitedIn == "" &&
		(k.rec.Phase == v1alpha1.KillPhasePreStop || k.rec.Phase == v1alpha1.KillPhaseWaitingForTurn)
}

// exited ends the phase of a kill whose container has exited.
func (k *kill) exited() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unaskedLocked() {
		k.exitedIn = k.rec.Phase
		k.cancel(errExited)
	}
}

// ended notes when a phase has ended.
func (k *kill) ended(phase *time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*phase = time.Now()
}

// hasExited is whether the container was seen to have exited before it was asked to stop.
func (k *kill) hasExited() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.exitedIn != ""
}

// exitedDuring returns the phase in which the container exited before it was asked to stop, empty
// if it did not, or that is not known: it was seen then, no process ever asked it, or the
// runtime's time of its exit is before the request. k.mu is held.
func (k *kill) exitedDuring(e *ending) v1alpha1.KillPhase {
	at := e.after.FinishedAt
	switch {
	case e.after.State != plan.ContainerExited, at.IsZero(), e.leftBefore():
		return ""
	case k.exitedIn != "":
		return k.exitedIn
	case k.unwatched:
		return k.cutOffIn()
	case k.asked.IsZero() || !e.steady() || !surelyBefore(at, k.asked.Round(0)):
		return ""
	case !k.hookEnded.IsZero() && (k.waitEnded.IsZero() || !at.After(k.hookEnded.Round(0))):
		return v1alpha1.KillPhasePreStop
	case !k.waitEnded.IsZero():
		return v1alpha1.KillPhaseWaitingForTurn
	}
	return ""
}

// cutOffIn is the phase before the stop signal in which a kill was cut off; empty if it was past
// that.
func (k *kill) cutOffIn() v1alpha1.KillPhase {
	rec := &k.open.Record
	if rec.StopTime == nil && (rec.Phase == v1alpha1.KillPhasePreStop || rec.Phase == v1alpha1.KillPhaseWaitingForTurn) {
		return rec.Phase
	}
	return ""
}

// surelyBefore is whether a time of the runtime, which may be in whole seconds, is before one of
// this process.
func surelyBefore(runtime, now time.Time) bool {
	if runtime.Nanosecond() == 0 {
		runtime = runtime.Add(clockPrecision)
	}
	return runtime.Before(now)
}
