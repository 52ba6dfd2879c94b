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

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
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
func (e *Executor) Resume(ctx context.Context, pod *corev1.Pod, open []plan.KillProgress) error {
	var errs []error
	var left []plan.KillProgress
	var statuses []plan.ContainerStatus
	for _, o := range open {
		if o.Record.Phase == v1alpha1.KillPhaseDone {
			continue
		}
		status, err := e.ofPod(ctx, pod, &o)
		switch {
		case runtimeerror.IsNotFound(err), err == nil && status != nil && status.State == plan.ContainerExited:
			e.closeRecord(ctx, pod, &o)
		case err != nil:
			errs = append(errs, fmt.Errorf("resume the kill of container %q: %w", o.Record.Container, err))
		case status != nil:
			left, statuses = append(left, o), append(statuses, *status)
		}
	}
	kills := plan.ResumedKills(pod, left, statuses, e.differences)
	turns, leave := e.takeTurns(pod.UID, kills)
	defer leave()
	ends := make([]error, len(kills))
	var wg sync.WaitGroup
	for i := range kills {
		wg.Go(func() {
			k := e.newKill(pod, kills[i])
			k.turns, k.open = turns, &left[i]
			_, ends[i] = k.inTurn(ctx)
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ends...)...)
}

// ofPod is the container of a record; nil if it is not one of the pod: the record came
// with the object's status, which people may write, and is set aside. So is a record
// at which this panics twice: whose container it is cannot be known.
func (e *Executor) ofPod(ctx context.Context, pod *corev1.Pod, open *plan.KillProgress) (found *plan.ContainerStatus, err error) {
	finished := false
	err = panics.Contain(logr.FromContextOrDiscard(ctx), "the record of a kill", func() error {
		status, err := e.containerStatus(ctx, open.Record.ContainerID)
		if err == nil {
			found = &status
		}
		finished = true
		return err
	})
	switch {
	case !finished:
		e.recordPanicked(ctx, pod, open)
	case found != nil && found.PodUID != string(pod.UID):
		e.setAside(ctx, pod, open, fmt.Sprintf("container %s is not one of this workload", open.Record.ContainerID))
		found = nil
	}
	return found, err
}

// closeRecords completes the records of kills whose container does not run any
// more.
func (e *Executor) closeRecords(ctx context.Context, r plan.KillRequest, kills []plan.Kill) {
	for i := range r.Open {
		open := &r.Open[i]
		runs := slices.ContainsFunc(kills, func(k plan.Kill) bool { return k.ID == open.Record.ContainerID })
		if runs || open.Record.Phase == v1alpha1.KillPhaseDone {
			continue
		}
		if status, err := e.ofPod(ctx, r.Pod, open); err != nil || status != nil {
			e.closeRecord(ctx, r.Pod, open)
		}
	}
}

// closeRecord completes the record of a kill whose container has left.
func (e *Executor) closeRecord(ctx context.Context, pod *corev1.Pod, open *plan.KillProgress) {
	rec := &open.Record
	k := e.newKill(pod, plan.Kill{ID: rec.ContainerID, Name: rec.Container, Trigger: rec.Trigger})
	k.open = open
	err := panics.Contain(logr.FromContextOrDiscard(ctx), "the record of a kill", func() error {
		k.resume()
		k.unwatched, k.until = true, open.Ends()
		_ = k.finish(ctx, nil) // nothing was stopped that could run on
		return nil
	})
	if err != nil {
		e.setAside(ctx, pod, open, err.Error())
	}
}

// resume sets a kill to where its record says it was.
func (k *kill) resume() {
	rec := k.open.Record
	k.rec = *rec.DeepCopy()
	k.left = k.open.Left(k.e.moment())
	k.begun = time.Now().Add(-seconds(k.open.Spent(k.left)))
	k.ends = time.Now().Add(seconds(k.left))
	if rec.Phase == v1alpha1.KillPhaseStopping && rec.StopTime != nil {
		k.WaitsFor = nil
	}
	if k.open.HookOver(k.left) {
		k.rec.PreStop.Outcome = v1alpha1.PreStopTimedOut
	}
}
