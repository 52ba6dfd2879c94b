// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
	"github.com/managedworkload/managedworkload/runtime/text"
)

const (
	exitCodeSIGKILL = 137
	reasonOOMKilled = "OOMKilled"
	// What containerd says about a container whose end it did not see, such as
	// one that left while containerd was restarted: it makes up the code, and the
	// time of the exit is that of its finding out.
	exitCodeUnknown = 255
	reasonUnknown   = "Unknown"
)

// Why an outcome is not known, in the record's error.
const (
	unseenEnd   = "the runtime did not see how the container ended"
	unknownTime = "the runtime does not report when the container ended"
	unseenForce = "the container was killed after its grace period and before the shim resumed the kill; who killed it is unknown"
	clockSet    = "the container exited before the kill by its time: it exited by itself, or the node's clock was set back"
	leftLate    = "the container exited after its grace period and before the shim resumed the kill"
)

// To start another instance beside a container that runs, or may run, would be
// worse than to try again.
var (
	errRunsOn = errors.New("the container runs although the runtime reported that it was stopped")
	errMayRun = errors.New("the runtime does not know the state of the container although it reported that it was stopped")
)

// finish completes the record: how the kill ended, by what the runtime says
// about the container now. It returns why the kill has failed.
func (k *kill) finish(ctx context.Context, stopErr error) error {
	after, err := k.settled(ctx, stopErr)
	failed := stopErr != nil
	if failed && err == nil && k.exitedNevertheless(after) {
		logr.FromContextOrDiscard(ctx).Error(stopErr, "Failed to stop container, but it has exited", "container", k.Name)
		failed = false
	}
	k.change(func(rec *v1alpha1.KillRecord) {
		end, took := later(rec.StartTime.Time, k.e.clock.Now()), time.Since(k.begun)
		if k.unwatched {
			took = end.Sub(rec.StartTime.Time)
		}
		k.endAt(rec, end, took)
		if err == nil {
			noteExit(rec, &after)
		}
		if failed {
			rec.Outcome = v1alpha1.KillOutcomeFailed
			rec.Error = text.Cut(runtimeerror.Text(stopErr), maxRecordMessage)
		} else {
			e := k.ending(rec)
			if stopErr != nil { // the call that failed may have forced it
				e.stopped, e.forced, e.forcedFrom = true, !time.Now().Before(k.stopEnd), k.stopEnd.Round(0)
			}
			k.conclude(rec, e, after, err)
		}
		k.endHook(rec)
	})
	if failed || err != nil {
		return stopErr
	}
	return k.doubt(after)
}

// doubt is why a container may run on that a StopContainer has reported as stopped,
// rather than finding nothing to stop; nil if it does not.
func (k *kill) doubt(after plan.ContainerStatus) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.e.differences.CheckStopped, k.forcedFrom.IsZero():
		return nil
	case after.State == plan.ContainerRunning:
		return errRunsOn
	case after.State == plan.ContainerUnknown:
		return errMayRun
	}
	return nil
}

// clockPrecision is how far apart readings of one clock may be: some runtimes tell whole
// seconds.
const clockPrecision = time.Second

// How long a runtime may take to show the end of a container that it has stopped:
// containerd has nothing to stop for a moment before it notes an exit.
const (
	settlePatience = 2 * time.Second
	settleInterval = 50 * time.Millisecond
)

// settled is the container after its kill.
func (k *kill) settled(ctx context.Context, stopErr error) (plan.ContainerStatus, error) {
	for until := time.Now().Add(settlePatience); ; time.Sleep(settleInterval) {
		after, err := k.e.containerStatus(ctx, k.ID)
		if err != nil || stopErr != nil || k.doubt(after) == nil || !time.Now().Before(until) || ctx.Err() != nil {
			return after, err
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// endAt notes when the kill ended, and how long it took.
func (k *kill) endAt(rec *v1alpha1.KillRecord, t time.Time, took time.Duration) {
	rec.Phase = v1alpha1.KillPhaseDone
	rec.FinishTime = &metav1.MicroTime{Time: t}
	rec.Grace.UsedSeconds = max(0, wholeSeconds(took))
}

// exitedNevertheless reports that a container has exited although its StopContainer failed. The kubelet
// believes the answer.
func (k *kill) exitedNevertheless(after plan.ContainerStatus) bool {
	return after.State == plan.ContainerExited && k.e.differences.CheckStopped
}

// conclude notes the outcome, by the container after the kill, or why the runtime did not say.
func (k *kill) conclude(rec *v1alpha1.KillRecord, e ending, after plan.ContainerStatus, err error) {
	if err == nil {
		e.after = &after
		e.during = k.exitedDuring(&e)
		rec.ExitedDuring = e.during
	} else {
		e.gone, e.err = runtimeerror.IsNotFound(err), err
	}
	var why string
	rec.Outcome, why = outcomeOf(e)
	rec.Error = text.Cut(why, maxRecordMessage)
	if e.after != nil && (e.unwatched && rec.Outcome != "" || e.seenLate()) {
		// It ended when the container left, not when the shim looked.
		end := later(rec.StartTime.Time, after.FinishedAt)
		k.endAt(rec, end, end.Sub(rec.StartTime.Time))
	}
}

// endHook ends a preStop hook whose end was not seen: it was cut off. One that the end of its container
// has ended ran until then.
func (k *kill) endHook(rec *v1alpha1.KillRecord) {
	if rec.PreStop == nil || rec.PreStop.Outcome != "" {
		return
	}
	rec.PreStop.Outcome = v1alpha1.PreStopTimedOut
	if rec.ExitedDuring == v1alpha1.KillPhasePreStop && rec.Outcome != "" {
		rec.PreStop.Outcome, rec.PreStop.Seconds = v1alpha1.PreStopFailed, rec.Grace.UsedSeconds
	}
}

// ending is what is known of the kill's end without asking the runtime. What the
// runtime said before a kill is that of its begin only if it was not resumed.
func (k *kill) ending(rec *v1alpha1.KillRecord) ending {
	e := ending{
		requested: rec.StartTime.Time, ran: k.ran(),
		stopped: !k.stoppedAt.IsZero(), forced: !k.stoppedAt.Before(k.forcedFrom), forcedFrom: k.forcedFrom.Round(0),
		hooked:    rec.PreStop != nil && rec.PreStop.Outcome != v1alpha1.PreStopSkipped,
		unwatched: k.unwatched, until: k.until, lost: k.before != nil && k.before.State == plan.ContainerUnknown,
	}
	if k.open == nil {
		e.stoppedBefore = k.missing || (k.before != nil && k.before.State == plan.ContainerExited)
		now := time.Now()
		e.begun, e.ended, e.took = k.begun.Round(0), now.Round(0), now.Sub(k.begun)
	}
	return e
}

// noteExit takes over what the runtime says about a container that has exited.
func noteExit(rec *v1alpha1.KillRecord, after *plan.ContainerStatus) {
	if after.StopSignal != "" {
		rec.StopSignal = after.StopSignal
	}
	if after.State != plan.ContainerExited {
		return
	}
	rec.ExitCode = new(after.ExitCode)
	rec.Reason = text.Cut(after.Reason, maxRecordReason)
}

// ending is what an outcome is derived from.
type ending struct {
	// after is the container after StopContainer succeeded; nil if the runtime did
	// not say, with its error. gone means that it does not know the container.
	after *plan.ContainerStatus
	gone  bool
	err   error
	// stoppedBefore: when the kill began, the container did not run any more. lost:
	// the runtime had lost its state before it was stopped.
	stoppedBefore, lost bool
	// requested is when the kill began, by the wall clock. ran: the runtime said that the
	// container ran then, so that it did not end before, whatever that clock was set to
	// since; a runtime may say so late.
	requested time.Time
	ran       bool
	// begun and ended are when the kill began and ended by the wall clock of the machine,
	// which its runtime has too, and took is what passed between, by the monotonic clock;
	// zero if another process began the kill.
	begun, ended time.Time
	took         time.Duration
	// stopped: a StopContainer saw the container stop. forced: by then its time was
	// over, by this process's monotonic clock.
	stopped, forced bool
	// forcedFrom is from when on the runtime killed by force, by the wall clock.
	forcedFrom time.Time
	// during is the phase before the stop signal in which the container exited; empty if it exited
	// at another time. hooked: its preStop hook ran, or had begun.
	during v1alpha1.KillPhase
	hooked bool
	// unwatched: the container left while no shim was there. A shim that dies
	// takes its StopContainer with it, and no SIGKILL follows: who killed a
	// container later on is unknown. until is when its time was over.
	unwatched bool
	until     time.Time
}

// outcomeOf is how a kill ended that the runtime reported as done, or why
// that is not known: then nothing is claimed. Exit code 137 alone says nothing:
// a program or the OOM killer can give it too.
func outcomeOf(e ending) (outcome v1alpha1.KillOutcome, why string) {
	if e.after == nil {
		return e.withoutFacts()
	}
	if e.after.State != plan.ContainerExited {
		return e.withoutExit()
	}
	switch after := e.after; {
	case after.FinishedAt.IsZero():
		return "", unknownTime
	case e.leftBefore():
		return v1alpha1.KillOutcomeAlreadyStopped, ""
	case after.ExitCode == exitCodeUnknown && (after.Reason == reasonUnknown || e.lost):
		return "", unseenEnd
	case e.unwatched:
		return e.whileAway()
	case e.during != "":
		return e.unasked(), ""
	case after.ExitCode == exitCodeSIGKILL && e.stopped && e.forced && !e.leftBeforeForce():
		return v1alpha1.KillOutcomeForced, ""
	default:
		return v1alpha1.KillOutcomeGraceful, ""
	}
}

// leftBefore reports that the container had exited when the kill began.
func (e ending) leftBefore() bool {
	at := e.after.FinishedAt
	return !e.ran && at.Before(e.requested) || e.steady() && at.Before(e.begun.Add(-clockPrecision))
}

// leftBeforeForce reports that the container had exited before the runtime killed by force, which
// was seen only later. The runtime's reason does not say that: it stays OOMKilled from the first
// process on that the kernel has killed for its memory.
func (e ending) leftBeforeForce() bool {
	return e.steady() && e.after.FinishedAt.Before(e.forcedFrom.Add(-clockPrecision))
}

// seenLate reports that the container exited during the kill, well before that was seen: the runtime
// was down meanwhile, or slow to answer.
func (e ending) seenLate() bool {
	at := e.after.FinishedAt
	return e.after.State == plan.ContainerExited && e.steady() && !at.Before(e.begun) && at.Add(clockPrecision).Before(e.ended)
}

// steady reports that the machine's wall clock was not set during the kill.
func (e ending) steady() bool {
	return !e.begun.IsZero() && (e.ended.Sub(e.begun)-e.took).Abs() <= clockPrecision
}

// withoutExit is the outcome of a container that the runtime does not say has left.
func (e ending) withoutExit() (v1alpha1.KillOutcome, string) {
	switch {
	case e.after.State == plan.ContainerRunning:
		return v1alpha1.KillOutcomeFailed, errRunsOn.Error()
	case e.after.State == plan.ContainerUnknown && e.stopped:
		return v1alpha1.KillOutcomeFailed, errMayRun.Error()
	default:
		return "", fmt.Sprintf("the runtime has the container in the state %q", e.after.State)
	}
}

// withoutFacts is the outcome where the runtime says nothing about the container.
func (e ending) withoutFacts() (v1alpha1.KillOutcome, string) {
	switch {
	case e.stoppedBefore:
		return v1alpha1.KillOutcomeAlreadyStopped, ""
	case e.gone:
		return "", "the runtime does not know the container any more"
	default:
		return "", "the runtime does not answer about the container: " + runtimeerror.Text(e.err)
	}
}

// whileAway is the outcome of a container that exited before the shim resumed the kill.
func (e ending) whileAway() (v1alpha1.KillOutcome, string) {
	switch {
	case e.after.FinishedAt.Before(e.requested):
		return "", clockSet
	case e.after.FinishedAt.Before(e.until):
		return e.unasked(), ""
	case e.killed():
		return "", unseenForce
	default:
		return "", leftLate
	}
}

// unasked is the outcome of a container that exited in time. Without the stop signal only its hook
// can have made it exit, and not by SIGKILL.
func (e ending) unasked() v1alpha1.KillOutcome {
	if e.during != "" && (!e.hooked || e.after.ExitCode == exitCodeSIGKILL) {
		return v1alpha1.KillOutcomeAlreadyStopped
	}
	return v1alpha1.KillOutcomeGraceful
}

// killed reports whether SIGKILL ended the container, and nothing was killed for its memory.
func (e ending) killed() bool {
	return e.after.ExitCode == exitCodeSIGKILL && e.after.Reason != reasonOOMKilled
}
