// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// KillPod kills all running containers of a pod at once, sidecars waiting for
// their turn, and stops every sandbox of it. What the runtime does not know counts
// as killed and stopped. While a kill failed before its container's time was over
// no sandbox is stopped: the runtime would kill what runs in it by force.
//
// When ctx ends or Interrupt cuts the kill, the sandboxes are left alone: to
// stop one kills by force what still runs in it.
// (kubelet kuberuntime_manager.go:killPodWithSyncResult)
func (e *Executor) KillPod(ctx context.Context, r plan.KillRequest) ([]plan.Result, error) {
	results, stopSandboxes, cut := e.killRunning(ctx, r)
	if cut != nil {
		return results, cut
	}
	if stopSandboxes {
		results = append(results, e.stopSandboxes(ctx, r.Pod, r.Observed))
	}
	var errs []error
	for _, result := range results {
		if result.Err != nil {
			errs = append(errs, resultError(result))
		}
	}
	return results, utilerrors.NewAggregate(errs) // in the kubelet's words
}

// killRunning kills the running containers and returns one result for each, in
// the order of plan.PodKills. stopSandboxes: the sandboxes may be stopped, because no
// kill failed of a container that may not have had its time. cut is set if a kill was cut
// off. (kubelet kuberuntime_container.go:killContainersWithSyncResult)
func (e *Executor) killRunning(ctx context.Context, r plan.KillRequest) (results []plan.Result, stopSandboxes bool, cut error) {
	kills := plan.PodKills(r, e.differences)
	e.closeRecords(ctx, r, kills)
	turns, leave := e.takeTurns(r.Pod.UID, kills)
	defer leave()
	results = make([]plan.Result, len(kills))
	errs := make([]error, len(kills))
	hurried := make([]bool, len(kills))
	var wg sync.WaitGroup
	for i, kill := range kills {
		wg.Go(func() {
			k := e.newKill(r.Pod, kill)
			k.turns, k.open, k.limitTo = turns, openKill(r.Open, kill.ID), r.Override
			k, errs[i] = k.inTurn(ctx)
			hurried[i] = e.hurried(k, errs[i])
		})
	}
	wg.Wait()
	stopSandboxes = !e.differences.KeepSandbox || !slices.Contains(hurried, true)
	for i, err := range errs {
		if cut == nil && (errors.Is(err, ErrInterrupted) || ctx.Err() != nil && errors.Is(err, ctx.Err())) {
			cut = err
		}
		if stopSandboxes && errors.Is(err, errMayRun) {
			err = nil // the end of its sandbox, which follows, ends it for sure
		}
		results[i] = killResult(kills[i].Name, err)
	}
	return results, stopSandboxes, cut
}

// failedKills are what is remembered of a container whose kills fail, one after another.
type failedKills struct {
	// first is when the first of them began, and last when the latest failed.
	first, last time.Time
	// outlasted: one has failed with its time over.
	outlasted bool
}

// longestPause is how long after a failure a kill may be tried again at the latest, beside the time for
// which kills have failed: one that comes later is no repetition.
const longestPause = time.Minute

func (f *failedKills) isOver(now time.Time) bool {
	return now.Sub(f.last) > f.last.Sub(f.first)+longestPause
}

// hurried reports that a kill failed and that the container may not have had all its time:
// a runtime may fail at the end of a stop that never reached the container, so that it
// takes two kills that failed with their time over. A runtime that cannot send the signal fails
// at once, each time: there it takes another failure when the time is over since the first began.
// One that was not asked, because it was away, says nothing.
func (e *Executor) hurried(k *kill, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	uid, now := k.pod.UID, time.Now()
	failed := e.failed[uid][k.ID]
	switch {
	case err == nil:
		delete(e.failed[uid], k.ID)
		return false
	case errors.Is(err, errMayRun):
		return false
	case runtimeerror.IsUnavailable(err) && !k.hadItsTime():
		return true
	case failed == nil || failed.isOver(now):
		if e.failed[uid] == nil {
			e.failed[uid] = map[string]*failedKills{}
		}
		failed = &failedKills{first: k.begun, last: now, outlasted: k.hadItsTime()}
		if failed.first.IsZero() { // it did not come to its beginning
			failed.first = now
		}
		e.failed[uid][k.ID] = failed
		return true
	}
	failed.last = now
	if k.hadItsTime() {
		outlasted := failed.outlasted
		failed.outlasted = true
		return !outlasted
	}
	return !k.Grace.IsOver(now.Sub(failed.first))
}

// openKill returns the kill of a container that was cut off, nil if none was.
func openKill(open []plan.KillProgress, id string) *plan.KillProgress {
	for i := range open {
		if rec := &open[i].Record; rec.ContainerID == id && rec.Phase != v1alpha1.KillPhaseDone {
			return &open[i]
		}
	}
	return nil
}

// killResult is the result of a kill.
func killResult(name string, err error) plan.Result {
	result := plan.Result{Action: plan.ActionKillContainer, Target: name}
	if err != nil {
		result.Err, result.Message = ErrKillContainer, runtimeerror.Text(err)
	}
	return result
}

// stopSandboxes stops every sandbox of a pod.
func (e *Executor) stopSandboxes(ctx context.Context, pod *corev1.Pod, observed *plan.PodStatus) plan.Result {
	result := plan.Result{Action: plan.ActionKillPodSandbox, Target: string(pod.UID)}
	for i := range observed.Sandboxes {
		id := observed.Sandboxes[i].ID
		err := e.runtime.StopSandbox(context.WithoutCancel(ctx), id)
		if err != nil && !runtimeerror.IsNotFound(err) {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to stop sandbox", "sandboxID", id)
			result.Err, result.Message = ErrKillPodSandbox, runtimeerror.Text(err)
		}
	}
	return result
}
