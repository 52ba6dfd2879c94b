// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// Words of the kubelet about kills. (kubelet kubelet.go:SyncTerminatingPod)
const (
	failedKillPodReason  = "FailedKillPod"
	failedKillPodMessage = "error killing pod: %v"
)

// flushDelay is the time until the next look while the final status is being
// published; its success wakes the worker at once.
const flushDelay = 5 * time.Second

// terminate kills everything, and goes on until the runtime says that nothing
// runs. (kubelet kubelet.go:SyncTerminatingPod)
func (w *worker) terminate(ctx context.Context, d desired) (time.Duration, error) {
	d, err := w.withRecordedPod(ctx, d)
	if err != nil {
		return jitter(errorDelay), err
	}
	if d.pod == nil {
		// Nothing was ever accepted, and the runtime has nothing.
		w.advance(facts{stopped: true})
		return 0, nil
	}
	observed, err := w.cfg.Runtime.PodStatus(ctx, w.id.UID)
	if err != nil {
		return w.killFailed(d, fmt.Errorf("observe: %w", err))
	}
	usable := w.usable()
	w.cfg.Prober.StopLivenessAndStartup(w.id.UID)
	before := w.computeStatus(d, observed, false)
	w.report(d, before, usable)
	if err := w.killAll(ctx, d, observed); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return w.killFailed(d, err)
	}
	stopped, err := w.observeStopped(ctx)
	if err != nil {
		return w.killFailed(d, err)
	}
	w.setKillError("")
	w.cfg.Prober.Remove(w.id.UID)
	st := status.Terminated(d.pod, before, w.computeStatus(d, stopped, true), time.Now())
	w.advance(facts{stopped: true})
	w.report(d, st, usable)
	w.stopped = stopped
	w.wakeUp()
	return 0, nil
}

// withRecordedPod fills in the pod when no template was ever accepted: what the
// runtime recorded.
func (w *worker) withRecordedPod(ctx context.Context, d desired) (desired, error) {
	if d.pod != nil {
		return d, nil
	}
	pod, err := w.cfg.Runtime.RecordedPod(ctx, w.id.UID)
	if err != nil {
		return d, fmt.Errorf("restore the pod from what was recorded: %w", err)
	}
	if pod == nil {
		return d, nil
	}
	if d.shown != nil {
		pod = withDeletion(pod, d.shown.DeletionTimestamp, d.shown.DeletionGracePeriodSeconds)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want.pod = pod
	d.pod = pod
	if d.shown == nil {
		w.want.shown, d.shown = pod, pod
	}
	return d, nil
}

// killAll kills the pod with the grace period of its termination; one that is
// shortened meanwhile reaches the kills under way.
func (w *worker) killAll(ctx context.Context, d desired, observed *plan.PodStatus) error {
	grace, source := w.shrinkGrace(d)
	request := plan.KillRequest{
		Pod: d.pod, Observed: observed, Override: &plan.Grace{Seconds: grace, Source: source},
		Trigger: trigger(d), RequestedBy: w.requester(d), Open: w.resume,
	}
	var err error
	begun := time.Now()
	attend(ctx, w.wake,
		func(ctx context.Context) { _, err = w.cfg.Executor.KillPod(ctx, request) },
		func(func()) {
			// A grace period that did not shrink shortens nothing.
			now := w.peek()
			latest, _ := w.shrinkGrace(now)
			w.cfg.Executor.Shorten(w.id.UID, latest)
			w.refresh(ctx, now, begun)
		})
	w.resume = w.stillUnderWay(w.resume)
	return err
}

// trigger is why everything ends.
func trigger(d desired) v1alpha1.KillTrigger {
	if d.orphan {
		return v1alpha1.TriggerOrphan
	}
	return v1alpha1.TriggerTermination
}

// shrinkGrace computes the grace period of the termination, which may only
// shrink.
func (w *worker) shrinkGrace(d desired) (int64, v1alpha1.GraceSource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	grace, source := d.terminationGrace(w.rec.Grace)
	w.dirty = w.dirty || grace != w.rec.Grace
	w.rec.Grace = grace
	w.rec.RequestedBy = d.requestedBy
	return grace, source
}

// observeStopped reads the runtime again: a container that still runs is an
// error, whatever the runtime said to its kill.
func (w *worker) observeStopped(ctx context.Context) (*plan.PodStatus, error) {
	observed, err := w.cfg.Runtime.PodStatus(ctx, w.id.UID)
	if err != nil {
		return nil, fmt.Errorf("observe after the kill: %w", err)
	}
	if names := running(observed); len(names) > 0 {
		return nil, fmt.Errorf("still running after the kill: %s", strings.Join(names, ", "))
	}
	return observed, nil
}

// running names the containers that run.
func running(observed *plan.PodStatus) []string {
	var names []string
	for _, c := range observed.Containers {
		if c.State == plan.ContainerRunning {
			names = append(names, c.Name)
		}
	}
	return names
}

// killFailed tells about a kill that the runtime did not carry out; it is tried
// again.
func (w *worker) killFailed(d desired, err error) (time.Duration, error) {
	w.setKillError(err.Error())
	w.report(d, w.lastPodStatus(), w.usable())
	w.warn(d, failedKillPodReason, fmt.Sprintf(failedKillPodMessage, err))
	return jitter(errorDelay), fmt.Errorf("kill pod: %w", err)
}

// setKillError notes why a kill fails, "" if none does, and says whether that is
// news.
func (w *worker) setKillError(message string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.killError != message
	w.killError = message
	return changed
}

// usable is what the pool says about the runtime.
func (w *worker) usable() Usable {
	if u := w.pool.currentUsable(); u != nil {
		return *u
	}
	return Usable{OK: true}
}

// finish removes what is left of a workload that is being deleted, once its last
// status is in the API, and releases the object. One that ended by itself stays
// until it is deleted. (kubelet kubelet.go:SyncTerminatedPod)
func (w *worker) finish(ctx context.Context, d desired) (time.Duration, error) {
	if !d.deleted {
		w.report(d, w.lastPodStatus(), w.usable())
		return jitter(resyncInterval), nil
	}
	observed := w.stopped
	w.stopped = nil
	if observed == nil {
		var err error
		if observed, err = w.cfg.Runtime.PodStatus(ctx, w.id.UID); err != nil {
			return w.removalFailed(fmt.Errorf("observe before the removal: %w", err))
		}
	}
	if names := running(observed); len(names) > 0 {
		// A start that the runtime had begun ended after the kill.
		w.log.Info("Containers run after the kill, killing again", "containers", names)
		w.advance(facts{running: true})
		return 0, nil
	}
	if err := w.removeContainers(ctx, observed); err != nil {
		return w.removalFailed(err)
	}
	if err := w.cfg.PodDir.Remove(ctx, w.id); err != nil {
		return w.removalFailed(fmt.Errorf("remove the pod's directories: %w", err))
	}
	if !w.flushed() {
		signal(w.publish)
		return flushDelay, nil
	}
	if err := w.removeCheckpoint(); err != nil {
		return jitter(errorDelay), err
	}
	if err := w.cfg.Publisher.Release(ctx, w.id); err != nil && !errors.Is(err, ErrGone) {
		return jitter(errorDelay) / 5, fmt.Errorf("release the object: %w", err)
	}
	w.cfg.Prober.Remove(w.id.UID)
	w.advance(facts{deleted: true, removed: true})
	return 0, nil
}

func (w *worker) removalFailed(err error) (time.Duration, error) {
	w.warn(w.peek(), failedKillPodReason, fmt.Sprintf(failedKillPodMessage, err))
	return jitter(errorDelay), err
}

// removeContainers removes containers and sandboxes that do not run.
func (w *worker) removeContainers(ctx context.Context, observed *plan.PodStatus) error {
	for _, c := range observed.Containers {
		if err := w.cfg.Runtime.RemoveContainer(ctx, c.ID); err != nil && !runtimeerror.IsNotFound(err) {
			return fmt.Errorf("remove container %q: %w", c.Name, err)
		}
	}
	for _, s := range observed.Sandboxes {
		if s.State == plan.SandboxReady {
			if err := w.cfg.Runtime.StopSandbox(ctx, s.ID); err != nil && !runtimeerror.IsNotFound(err) {
				return fmt.Errorf("stop sandbox %q: %w", s.ID, err)
			}
		}
		if err := w.cfg.Runtime.RemoveSandbox(ctx, s.ID); err != nil && !runtimeerror.IsNotFound(err) {
			return fmt.Errorf("remove sandbox %q: %w", s.ID, err)
		}
	}
	return nil
}
