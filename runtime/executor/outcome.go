// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

const (
	exitCodeSIGKILL = 137
	reasonOOMKilled = "OOMKilled"
)

// finish completes the record: how the kill ended, by what the runtime says
// about the container now.
func (k *kill) finish(ctx context.Context, stopErr error) {
	after, err := k.e.facts(ctx, k.id)
	k.change(func(rec *v1alpha1.KillRecord) {
		now := time.Now()
		rec.Phase = v1alpha1.KillPhaseDone
		rec.FinishTime = &metav1.MicroTime{Time: now}
		rec.Grace.UsedSeconds = max(0, wholeSeconds(now.Sub(rec.StartTime.Time)))
		if err == nil {
			noteExit(rec, &after)
		}
		if stopErr != nil {
			rec.Outcome = v1alpha1.KillOutcomeFailed
			rec.Error = truncate(runtimeWords(stopErr), maxRecordMessage)
			return
		}
		rec.Outcome = outcomeOf(ending{
			known: err == nil, gone: isNotFound(err), after: &after, wasGone: k.before == nil,
			requested: rec.StartTime.Time, forcedFrom: k.stopDeadline,
		})
		if rec.Outcome == v1alpha1.KillOutcomeFailed {
			rec.Error = "the container runs although the runtime reported that it was stopped"
		}
	})
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
	rec.Reason = truncate(after.Reason, maxRecordReason)
}

// ending is what an outcome is told from.
type ending struct {
	// after is the container after StopContainer succeeded, if it is known; gone
	// means that the runtime does not know it any more, wasGone that it did not
	// tell before the kill either.
	after                *plan.ContainerStatus
	known, gone, wasGone bool
	// requested is when the kill began.
	requested time.Time
	// forcedFrom is when the last StopContainer's time was over; zero if none was
	// called.
	forcedFrom time.Time
}

// outcomeOf tells how a kill ended that the runtime reported as done. Exit code
// 137 alone says nothing: a program or the OOM killer can give it too. After a
// restart of containerd the exit code is 255, and nothing is claimed.
func outcomeOf(e ending) v1alpha1.KillOutcome {
	switch {
	case e.gone && e.wasGone:
		return v1alpha1.KillOutcomeAlreadyStopped
	case !e.known:
		return v1alpha1.KillOutcomeGraceful
	case e.after.State == plan.ContainerRunning:
		return v1alpha1.KillOutcomeFailed
	case e.after.State != plan.ContainerExited:
		return v1alpha1.KillOutcomeGraceful
	case !e.after.FinishedAt.IsZero() && e.after.FinishedAt.Before(e.requested):
		return v1alpha1.KillOutcomeAlreadyStopped
	case e.forced():
		return v1alpha1.KillOutcomeForced
	default:
		return v1alpha1.KillOutcomeGraceful
	}
}

func (e ending) forced() bool {
	return e.after.ExitCode == exitCodeSIGKILL && e.after.Reason != reasonOOMKilled &&
		!e.forcedFrom.IsZero() && !e.after.FinishedAt.Before(e.forcedFrom)
}
