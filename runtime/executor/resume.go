// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// Resume finishes kills that a crash or Interrupt cut off, by their records:
// their deadlines are absolute and did not wait. A preStop hook that was cut off
// runs again if its time is not over, but not if the kill was past it; a
// StopContainer is called with what is left, 2 s at least. Records of kills that
// had ended are left alone.
//
// The kills of a pod kill are to be handed to KillPod instead, so that its
// sandboxes are stopped too.
func (e *Executor) Resume(ctx context.Context, pod *corev1.Pod, kills []plan.KillProgress) error {
	kills = slices.DeleteFunc(slices.Clone(kills), func(k plan.KillProgress) bool {
		return k.Record.Phase == v1alpha1.KillPhaseDone
	})
	names := make([]string, len(kills))
	for i := range kills {
		names[i] = kills[i].Record.Container
	}
	turns := newTurns(pod, names)
	errs := make([]error, len(kills))
	var wg sync.WaitGroup
	for i := range kills {
		wg.Go(func() { errs[i] = e.resumeOne(ctx, pod, &kills[i], turns) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (e *Executor) resumeOne(ctx context.Context, pod *corev1.Pod, open *plan.KillProgress, turns *turns) error {
	rec := &open.Record
	now, err := e.facts(ctx, rec.ContainerID)
	switch {
	case runtimeerror.IsNotFound(err), err == nil && now.State == plan.ContainerExited:
		e.closeRecord(ctx, pod, open, turns)
		return nil
	case err != nil:
		return fmt.Errorf("resume the kill of container %q: %w", rec.Container, err)
	}
	opts := KillOptions{
		Trigger: rec.Trigger, Message: rec.Message, RequestedBy: rec.RequestedBy, Resume: open,
		FromRecord: goesByRecord(pod, &now, rec.Trigger),
	}
	return e.kill(ctx, pod, rec.ContainerID, rec.Container, opts, turns)
}

// closeRecords completes the records of kills whose container does not run any
// more.
func (e *Executor) closeRecords(ctx context.Context, r plan.KillRequest, running []*plan.ContainerStatus) {
	for i := range r.Open {
		rec := &r.Open[i].Record
		runs := slices.ContainsFunc(running, func(c *plan.ContainerStatus) bool { return c.ID == rec.ContainerID })
		if !runs && rec.Phase != v1alpha1.KillPhaseDone {
			e.closeRecord(ctx, r.Pod, &r.Open[i], nil)
		}
	}
}

// closeRecord completes the record of a kill whose container has left.
func (e *Executor) closeRecord(ctx context.Context, pod *corev1.Pod, open *plan.KillProgress, turns *turns) {
	rec := &open.Record
	t := target{pod: pod, spec: pod, id: rec.ContainerID, container: &corev1.Container{Name: rec.Container}}
	k := newKill(e, t, KillOptions{Trigger: rec.Trigger, Resume: open}, nil)
	k.unwatched, k.until = true, endOf(rec)
	_ = k.finish(ctx, nil) // nothing was stopped that could run on
	turns.ended(rec.Container)
}

// resume sets a kill to where its record says it was.
func (k *kill) resume(open *plan.KillProgress) {
	rec := open.Record
	k.rec = *rec.DeepCopy()
	k.left = secondsUntil(endOf(&rec))
	if rec.Phase == v1alpha1.KillPhaseStopping && rec.StopTime != nil {
		k.turns = nil
	}
	hook := k.rec.PreStop
	if hook == nil || hook.Outcome != "" {
		return
	}
	if rec.Phase != v1alpha1.KillPhasePreStop || k.left <= 0 {
		hook.Outcome = v1alpha1.PreStopTimedOut
	}
}

// endOf is when the phase a record is in has to end: a StopContainer's timeout
// counts, unless a shortening did.
func endOf(rec *v1alpha1.KillRecord) time.Time {
	stopping := rec.Phase == v1alpha1.KillPhaseStopping && rec.StopTime != nil && rec.StopTimeoutSeconds != nil
	switch {
	case stopping && (rec.Grace.ShortenedFromSeconds == nil || rec.Grace.Deadline == nil):
		return rec.StopTime.Add(seconds(*rec.StopTimeoutSeconds))
	case rec.Grace.Deadline != nil:
		return rec.Grace.Deadline.Time
	default:
		return rec.StartTime.Add(seconds(rec.Grace.Seconds))
	}
}
