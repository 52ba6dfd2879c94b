// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// panicsBeforeLabels is how often a kill may panic before its decision and its
// record are set aside and the container is killed by what its own labels say.
const panicsBeforeLabels = 2

// setAsideReason is the reason of the event about a record that is not continued.
const setAsideReason = "KillRecordSetAside"

// carryOut takes a kill to its end. A panic on the way becomes its error: the
// other kills continue, and this one is tried again.
func (k *kill) carryOut(ctx context.Context) error {
	if n := k.e.panicsOf(k); n >= panicsBeforeLabels {
		k = k.byLabels(ctx, n)
	}
	finished := false
	err := panics.Contain(logr.FromContextOrDiscard(ctx), "the kill of container "+k.Name, func() error {
		err := k.execute(ctx)
		finished = true
		return err
	})
	if finished {
		if err == nil {
			k.e.forgetPanics(k.ID)
		}
		return err
	}
	return k.panicked(ctx, err)
}

// panicsOf is how often the kill of a container has panicked.
func (e *Executor) panicsOf(k *kill) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.panicked[k.ID]
	if k.open != nil {
		n = max(n, k.open.Note.Panics)
	}
	return n
}

func (e *Executor) forgetPanics(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.panicked, id)
}

// panicked counts a panic. The record of a kill that began here is closed, because
// the next try has its own; one that was cut off stays open, with the count.
func (k *kill) panicked(ctx context.Context, err error) error {
	n := k.e.panicsOf(k) + 1
	k.e.mu.Lock()
	k.e.panicked[k.ID] = n
	k.e.mu.Unlock()
	if k.open == nil {
		k.e.setAside(ctx, k.pod, &plan.KillProgress{Record: k.rec}, err.Error())
		return err
	}
	k.open.Note.Panics = n
	k.e.tell(ctx, k.pod, *k.open)
	return err
}

// byLabels returns the kill that replaces one that has panicked too often.
func (k *kill) byLabels(ctx context.Context, n int) *kill {
	if k.open != nil {
		k.e.abandonRecord(ctx, k.pod, k.open, n)
	}
	status := plan.ContainerStatus{ID: k.ID, Name: k.Name}
	_ = panics.Contain(logr.FromContextOrDiscard(ctx), "the status of container "+k.Name, func() error {
		now, err := k.e.containerStatus(ctx, k.ID)
		if err == nil {
			status = now
		}
		return err
	})
	replacement := k.e.newKill(k.pod, plan.LabelKill(k.pod, &status, k.Kill, n))
	replacement.turns, replacement.passed, replacement.again = k.turns, k.passed, k.again
	return replacement
}

// recordPanicked counts a panic at a record that came to no kill.
func (e *Executor) recordPanicked(ctx context.Context, pod *corev1.Pod, open *plan.KillProgress) {
	if open.Note.Panics++; open.Note.Panics >= panicsBeforeLabels {
		e.abandonRecord(ctx, pod, open, open.Note.Panics)
		return
	}
	e.tell(ctx, pod, *open)
}

// abandonRecord sets a record aside that has panicked n times, and tells people.
func (e *Executor) abandonRecord(ctx context.Context, pod *corev1.Pod, open *plan.KillProgress, n int) {
	why := fmt.Sprintf("continuing this kill panicked %d times", n)
	e.setAside(ctx, pod, open, why)
	e.containerEvent(pod, open.Record.Container, open.Record.ContainerID, corev1.EventTypeWarning, setAsideReason,
		fmt.Sprintf("Container %s: %s; its record was set aside", open.Record.Container, why))
}

// setAside closes a record that is not continued, and says why.
func (e *Executor) setAside(ctx context.Context, pod *corev1.Pod, open *plan.KillProgress, why string) {
	logr.FromContextOrDiscard(ctx).Info("Set a kill record aside", "container", open.Record.Container, "reason", why)
	closed := plan.KillProgress{Record: *open.Record.DeepCopy()}
	k := &kill{e: e}
	k.endAt(&closed.Record, later(closed.Record.StartTime.Time, e.clock.Now()), 0)
	closed.Record.Outcome, closed.Record.Error = v1alpha1.KillOutcomeFailed, text.Cut(why, maxRecordMessage)
	e.tell(ctx, pod, closed)
}

// tell hands the progress of a kill to the sink, whose panic ends nothing else.
func (e *Executor) tell(ctx context.Context, pod *corev1.Pod, progress plan.KillProgress) {
	if e.kills == nil || progress.Record.ID == "" {
		return
	}
	_ = panics.Contain(logr.FromContextOrDiscard(ctx), "the record of a kill", func() error {
		e.kills.Kill(pod.UID, progress)
		return nil
	})
}
