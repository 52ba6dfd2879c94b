// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// killedReason is the reason of the event that tells how a kill ended.
const killedReason = "Killed"

// gatherDelay is how long news that are soon followed by others wait for them.
const gatherDelay = 500 * time.Millisecond

// The wait between two tries to publish.
const (
	publishRetryMin = time.Second
	publishRetryMax = 30 * time.Second
)

// publishLoop writes the latest status whenever there is news, and tries again
// when it fails; the worker does not wait for the API server. Events about kills
// follow once their records are in the API.
func (w *worker) publishLoop(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	delay := publishRetryMin
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.publish:
			w.gather(ctx)
		case <-retry.C:
		}
		err := w.publishOnce(ctx)
		switch {
		case err == nil:
			delay = publishRetryMin
		case ctx.Err() != nil:
			return
		default:
			w.log.Info("Status not published, trying again", "reason", err.Error(), "in", delay.String())
			retry.Reset(jitter(delay))
			delay = min(2*delay, publishRetryMax)
		}
	}
}

// gather waits a moment while a workload is on its way to the state that people
// wait for: to write each step would slow the way down.
func (w *worker) gather(ctx context.Context) {
	timer := time.NewTimer(gatherDelay)
	defer timer.Stop()
	for w.underWay() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-w.publish:
		}
	}
}

// underWay says that the workload is being started or ended.
func (w *worker) underWay() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rec.State == Terminating || (w.rec.State == Syncing && w.rec.Status.Phase == corev1.PodPending)
}

// publishOnce writes what is not published yet.
func (w *worker) publishOnce(ctx context.Context) error {
	w.mu.Lock()
	pending := w.unpublished
	w.unpublished, w.publishing = false, true
	st := w.rec.Status.DeepCopy()
	ended := slices.Clone(w.rec.Unannounced)
	w.mu.Unlock()
	var err error
	if pending || len(ended) > 0 {
		err = w.cfg.Publisher.Publish(ctx, w.id, st)
	}
	w.mu.Lock()
	w.publishing = false
	w.statusRefused = errors.Is(err, ErrRefused)
	failed := err != nil && !errors.Is(err, ErrGone)
	w.unpublished = w.unpublished || failed
	if failed && !w.statusRefused {
		w.mu.Unlock()
		return err
	}
	w.rec.Unannounced = slices.DeleteFunc(w.rec.Unannounced, func(id string) bool { return slices.Contains(ended, id) })
	state, pod := w.rec.State, w.want.reported()
	w.dirty = w.dirty || len(ended) > 0
	w.mu.Unlock()
	w.announce(pod, st.Kills, ended)
	if len(ended) > 0 && state == Syncing {
		// A process that comes after this one must not tell it again.
		w.saveIfDirty()
	}
	if state == Terminated {
		w.wakeUp()
	}
	if failed {
		return err
	}
	return nil
}

// flushed says that everything there is to tell is in the API, or that the API
// has no such object or does not take it.
func (w *worker) flushed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return (!w.unpublished || w.statusRefused) && !w.publishing && len(w.rec.Unannounced) == 0
}

// announce tells about kills that have ended, oldest first.
func (w *worker) announce(pod *corev1.Pod, kills []v1alpha1.KillRecord, ended []string) {
	for _, k := range slices.Backward(kills) {
		if !slices.Contains(ended, k.ID) {
			continue
		}
		w.cfg.Metrics.killEnded(k)
		eventtype := corev1.EventTypeNormal
		if k.Outcome == v1alpha1.KillOutcomeForced || k.Outcome == v1alpha1.KillOutcomeFailed {
			eventtype = corev1.EventTypeWarning
		}
		if pod != nil {
			w.cfg.Events.Event(pod, podspec.FieldPath(pod, k.Container), eventtype, killedReason, k.Summary)
		}
	}
}

// warn writes a Warning event about the whole workload.
func (w *worker) warn(d desired, reason, message string) {
	if pod := d.reported(); pod != nil {
		w.cfg.Events.Event(pod, "", corev1.EventTypeWarning, reason, message)
	}
}
