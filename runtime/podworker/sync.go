// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// Words of the kubelet. (kubelet kubelet.go:SyncPod, events/event.go)
const (
	networkNotReadyReason  = "NetworkNotReady"
	networkNotReadyMessage = "network is not ready"
)

// Reasons of our own.
const (
	// reasonPreviousInstance: an older instance of the same name is still there.
	reasonPreviousInstance = "PreviousInstanceTerminating"
)

// sync keeps the containers as the template says: observe, plan, carry out,
// observe again. (kubelet kubelet.go:SyncPod)
func (w *worker) sync(ctx context.Context, d desired, usable Usable) (time.Duration, error) {
	if d.pod == nil || usable.Reason == v1alpha1.ReasonRuntimeNotReady {
		// Nothing to do, or nobody to ask: the news will wake the worker.
		w.report(d, w.lastPodStatus(), usable)
		return jitter(resyncInterval), nil
	}
	observed, err := w.cfg.Runtime.PodStatus(ctx, w.id.UID)
	if err != nil {
		w.report(d, w.lastPodStatus(), usable)
		return jitter(errorDelay), fmt.Errorf("observe: %w", err)
	}
	if err := w.finishResumed(ctx, d, observed); err != nil {
		return jitter(errorDelay), err
	}
	if w.changed() {
		// The wake for it is used up: no operation may begin that waits for one.
		return 0, nil
	}
	w.removeDead(ctx, observed)
	st := w.computeStatus(d, observed, false)
	if ended(&st) {
		w.noteEnded(d, observed)
	}
	w.report(d, st, usable)
	if ended(&st) {
		w.advanceEnded()
		return 0, nil
	}
	if !usable.OK {
		return jitter(resyncInterval), nil
	}
	if err := w.networkError(d.pod); err != nil {
		w.warn(d, networkNotReadyReason, networkNotReadyMessage+": "+err.Error())
		return networkDelay, fmt.Errorf("%s: %w", networkNotReadyMessage, err)
	}
	return w.carryOut(ctx, d, observed, st, usable)
}

// removeDead removes older dead instances of containers that have exited since
// the last look. (kubelet kubelet.go:cleanUpContainersInPod)
func (w *worker) removeDead(ctx context.Context, observed *plan.PodStatus) {
	exited := map[string]bool{}
	instances := map[string]int{}
	for _, c := range slices.Backward(observed.Containers) {
		instances[c.Name]++
		if c.State != plan.ContainerExited {
			continue
		}
		exited[c.ID] = true
		if w.exited[c.ID] || instances[c.Name] < 2 {
			continue
		}
		if err := w.cfg.Executor.RemoveDead(ctx, observed, c.ID); err != nil {
			w.log.Info("Older dead containers not removed, garbage collection will", "container", c.Name, "reason", err.Error())
		}
	}
	w.exited = exited
}

// advanceEnded moves on: the workload ended by itself.
func (w *worker) advanceEnded() {
	w.advance(facts{ended: true})
	w.wakeUp()
}

// carryOut plans and has the plan carried out.
func (w *worker) carryOut(ctx context.Context, d desired, observed *plan.PodStatus, st corev1.PodStatus, usable Usable) (time.Duration, error) {
	w.cfg.Prober.Update(d.pod, observed, &st)
	actions := w.compute(d, observed, &st)
	if !needed(actions) {
		w.runs(d, st, usable)
		return jitter(resyncInterval), nil
	}
	// A kill saves before its first side effect; what starts carries all that a
	// restart needs on itself, so that nothing waits for the disk here.
	var saving sync.WaitGroup
	saving.Go(w.saveIfDirty)
	outcome := w.execute(ctx, d, observed, actions)
	saving.Wait()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if w.peek().deleted {
		return 0, nil
	}
	w.remember(outcome)
	after, err := w.cfg.Runtime.PodStatus(ctx, w.id.UID)
	if err != nil {
		return jitter(errorDelay), fmt.Errorf("observe after a sync: %w", err)
	}
	st = w.computeStatus(d, after, false)
	w.cfg.Prober.Update(d.pod, after, &st)
	next := w.compute(d, after, &st)
	if ended(&st) && createdAny(observed, after) {
		// It ended before it was seen to run: this template it was all the same.
		w.noteTemplate(d, plan.Actions{})
	} else {
		w.noteTemplate(d, next)
	}
	w.report(d, st, usable)
	if ended(&st) {
		w.advanceEnded()
		return 0, nil
	}
	delay, err := afterSync(outcome, actions, next)
	if diedMeanwhile(observed, after) {
		// Its event came while nobody listened for it.
		delay = 0
	}
	return delay, err
}

// afterSync is when to look again after a plan was carried out.
// (kubelet pod_workers.go:completeWork)
func afterSync(outcome plan.SyncOutcome, actions, next plan.Actions) (time.Duration, error) {
	if outcome.Err != nil {
		delay := jitter(errorDelay)
		if !outcome.BackoffUntil.IsZero() {
			delay = min(delay, time.Until(outcome.BackoffUntil))
		}
		return max(0, delay), fmt.Errorf("carry out the plan: %w", outcome.Err)
	}
	if !outcome.BackoffUntil.IsZero() {
		return max(0, time.Until(outcome.BackoffUntil)), nil
	}
	switch {
	case !needed(next):
		return jitter(resyncInterval), nil
	case reflect.DeepEqual(actions, next):
		// The same once more is not done in a hurry.
		return repeatDelay, nil
	}
	return 0, nil
}

// execute carries a plan out and stays awake: a deletion that arrives meanwhile
// cancels starts, and shortens kills.
func (w *worker) execute(ctx context.Context, d desired, observed *plan.PodStatus, actions plan.Actions) plan.SyncOutcome {
	request := plan.SyncRequest{
		Pod: d.pod, Observed: observed, Actions: actions,
		Backoff: w.backoff(), BackoffPolicy: plan.NewBackoffPolicy(d.restartBackoff),
		Actuated: w.actuated(), RequestedBy: defaultRequester,
	}
	var outcome plan.SyncOutcome
	begun := time.Now()
	attend(ctx, w.wake,
		func(ctx context.Context) { outcome = w.cfg.Executor.SyncPod(ctx, request) },
		func(cancel func()) {
			if now := w.peek(); now.deleted {
				cancel()
				grace, _ := now.terminationGrace(0)
				w.cfg.Executor.Shorten(w.id.UID, grace)
			}
			w.refresh(ctx, d, begun)
		})
	w.keepBackoff(request.Backoff)
	w.keepActuated(request.Actuated, observed)
	w.resizeFailed(d.pod, outcome.ResizeError)
	w.setKillError(outcome.KillError)
	return outcome
}

// refresh reports what can be seen while an operation takes its time.
func (w *worker) refresh(ctx context.Context, d desired, begun time.Time) {
	if time.Since(begun) < busyRefresh {
		return
	}
	usable := w.pool.currentUsable()
	observed, err := w.cfg.Runtime.PodStatus(ctx, w.id.UID)
	if err != nil || usable == nil {
		return
	}
	st := w.computeStatus(d, observed, false)
	if ended(&st) {
		// A phase that is final is for the end of the operation to find: a
		// container that exited may be about to be started again.
		return
	}
	w.report(d, st, *usable)
}

// finishResumed finishes the kills that an earlier process left behind.
func (w *worker) finishResumed(ctx context.Context, d desired, observed *plan.PodStatus) error {
	if len(w.resume) == 0 {
		return nil
	}
	kills := w.resume
	var err error
	attend(ctx, w.wake,
		func(ctx context.Context) { err = w.cfg.Executor.Resume(ctx, d.pod, kills) },
		func(func()) {
			if now := w.peek(); now.deleted && now.pod != nil {
				grace, _ := now.terminationGrace(0)
				w.cfg.Executor.Shorten(w.id.UID, grace)
			}
		})
	if err != nil {
		w.resume = w.stillUnderWay(kills)
		return fmt.Errorf("finish kills that were under way: %w", err)
	}
	w.resume = nil
	fresh, err := w.cfg.Runtime.PodStatus(ctx, w.id.UID)
	if err != nil {
		return fmt.Errorf("observe after finishing kills: %w", err)
	}
	*observed = *fresh
	return nil
}

// compute asks the plan.
func (w *worker) compute(d desired, observed *plan.PodStatus, st *corev1.PodStatus) plan.Actions {
	in := w.input(d, observed)
	in.RestartAllContainers = restartingAll(st)
	return plan.Compute(in)
}

// restartingAll says that the pod starts over. (kubelet kubelet.go:SyncPod)
func restartingAll(st *corev1.PodStatus) bool {
	return slices.ContainsFunc(st.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.AllContainersRestarting && c.Status == corev1.ConditionTrue
	})
}

// needed says whether a plan has anything to carry out.
func needed(a plan.Actions) bool {
	return a.Resizes() || a.KillPod || a.CreateSandbox || len(a.ContainersToKill) > 0 || len(a.ContainersToReset) > 0 ||
		len(a.InitContainersToStart) > 0 || len(a.ContainersToStart) > 0 || len(a.EphemeralContainersToStart) > 0
}

// runs notes that the template runs, for there was nothing left to do.
func (w *worker) runs(d desired, st corev1.PodStatus, usable Usable) {
	killed := w.setKillError("")
	if w.noteTemplate(d, plan.Actions{}) || killed {
		w.report(d, st, usable)
	}
}

// noteTemplate notes which template runs: once nothing of another is left to be
// killed or resized. It says whether that is news.
func (w *worker) noteTemplate(d desired, left plan.Actions) bool {
	if left.KillPod || len(left.ContainersToKill) > 0 || left.Resizes() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec.TemplateHash == d.hash {
		return false
	}
	w.rec.TemplateHash = d.hash
	w.dirty = true
	return true
}

// noteEnded notes the template of a workload that had ended when it was looked at:
// the process that started it may not have lived to note it, and the manager would
// have it run again.
func (w *worker) noteEnded(d desired, observed *plan.PodStatus) {
	nothing := len(observed.Containers) == 0 && w.notedNone()
	if nothing || plan.MadeFrom(w.input(d, observed).Definitions, observed) {
		w.noteTemplate(d, plan.Actions{})
	}
}

// notedNone says that no template was ever noted.
func (w *worker) notedNone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rec.TemplateHash == ""
}

// createdAny tells whether a sync created a container, whatever became of it: one
// that was killed for its postStart hook was an instance of the template too.
func createdAny(before, after *plan.PodStatus) bool {
	return slices.ContainsFunc(after.Containers, func(c plan.ContainerStatus) bool {
		return !slices.ContainsFunc(before.Containers, func(old plan.ContainerStatus) bool { return old.ID == c.ID })
	})
}

// diedMeanwhile tells whether a container that a sync created has exited already.
func diedMeanwhile(before, after *plan.PodStatus) bool {
	exited := &plan.PodStatus{}
	for _, c := range after.Containers {
		if c.State == plan.ContainerExited {
			exited.Containers = append(exited.Containers, c)
		}
	}
	return createdAny(before, exited)
}

// remember keeps why containers wait. (kubelet reason_cache.go:Update)
func (w *worker) remember(outcome plan.SyncOutcome) {
	for name, reason := range outcome.Tried {
		if reason == (status.Reason{}) {
			delete(w.waiting, name)
		} else {
			w.waiting[name] = reason
		}
	}
}

// networkError tells why a pod that needs the pod network cannot be started.
func (w *worker) networkError(pod *corev1.Pod) error {
	if pod.Spec.HostNetwork {
		return nil
	}
	return w.cfg.NetworkReady()
}

// awaitPredecessor waits until the older instance of the same name is gone.
func (w *worker) awaitPredecessor(d desired, uid types.UID) (time.Duration, error) {
	w.report(d, corev1.PodStatus{
		Phase:   corev1.PodPending,
		Reason:  reasonPreviousInstance,
		Message: fmt.Sprintf("the instance %s of the same name is still there", uid),
	}, *w.pool.currentUsable())
	return errorDelay, nil
}

// ended says that the workload came to its end by itself.
func ended(st *corev1.PodStatus) bool {
	return st.Phase == corev1.PodSucceeded || st.Phase == corev1.PodFailed
}
