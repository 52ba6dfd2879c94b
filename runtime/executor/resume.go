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
func (e *Executor) Resume(ctx context.Context, pod *corev1.Pod, records []v1alpha1.KillRecord) error {
	records = slices.DeleteFunc(slices.Clone(records), func(rec v1alpha1.KillRecord) bool {
		return rec.Phase == v1alpha1.KillPhaseDone
	})
	names := make([]string, len(records))
	for i := range records {
		names[i] = records[i].Container
	}
	turns := newTurns(pod, names)
	errs := make([]error, len(records))
	var wg sync.WaitGroup
	for i := range records {
		wg.Go(func() { errs[i] = e.resumeOne(ctx, pod, &records[i], turns) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (e *Executor) resumeOne(ctx context.Context, pod *corev1.Pod, rec *v1alpha1.KillRecord, turns *turns) error {
	now, err := e.facts(ctx, rec.ContainerID)
	switch {
	case runtimeerror.IsNotFound(err), err == nil && now.State == plan.ContainerExited:
		e.closeRecord(ctx, pod, rec, turns)
		return nil
	case err != nil:
		return fmt.Errorf("resume the kill of container %q: %w", rec.Container, err)
	}
	opts := KillOptions{
		Trigger: rec.Trigger, Message: rec.Message, RequestedBy: rec.RequestedBy, Resume: rec,
		FromRecord: goesByRecord(pod, &now, rec.Trigger),
	}
	return e.kill(ctx, pod, rec.ContainerID, rec.Container, opts, turns)
}

// closeRecords completes the records of kills whose container does not run any
// more.
func (e *Executor) closeRecords(ctx context.Context, pod *corev1.Pod, running []*plan.ContainerStatus, opts KillPodOptions) {
	for i := range opts.Resume {
		rec := &opts.Resume[i]
		runs := slices.ContainsFunc(running, func(c *plan.ContainerStatus) bool { return c.ID == rec.ContainerID })
		if !runs && rec.Phase != v1alpha1.KillPhaseDone {
			e.closeRecord(ctx, pod, rec, nil)
		}
	}
}

// closeRecord completes the record of a kill whose container has left.
func (e *Executor) closeRecord(ctx context.Context, pod *corev1.Pod, rec *v1alpha1.KillRecord, turns *turns) {
	t := target{pod: pod, spec: pod, id: rec.ContainerID, container: &corev1.Container{Name: rec.Container}}
	k := newKill(e, t, KillOptions{Trigger: rec.Trigger, Resume: rec}, nil)
	k.unwatched, k.until = true, endOf(rec)
	_ = k.finish(ctx, nil) // nothing was stopped that could run on
	turns.ended(rec.Container)
}

// resume sets a kill to where its record says it was.
func (k *kill) resume(rec v1alpha1.KillRecord) {
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
