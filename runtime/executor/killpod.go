// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// KillPod kills all running containers of a pod at once, sidecars waiting for
// their turn, and stops every sandbox of it, also after a container that could
// not be killed. What the runtime does not know counts as killed and stopped.
//
// When ctx ends or Interrupt cuts the kill, the sandboxes are left alone: to
// stop one kills by force what still runs in it.
// (kubelet kuberuntime_manager.go:killPodWithSyncResult)
func (e *Executor) KillPod(ctx context.Context, r plan.KillRequest) ([]plan.Result, error) {
	results, cut := e.killRunning(ctx, r)
	if cut != nil {
		return results, cut
	}
	results = append(results, e.stopSandboxes(ctx, r.Pod, r.Observed))
	var errs []error
	for _, result := range results {
		if result.Err != nil {
			errs = append(errs, resultError(result))
		}
	}
	return results, utilerrors.NewAggregate(errs) // in the kubelet's words
}

// killRunning kills the running containers and returns one result for each, in
// the order they were observed. cut is set if a kill was cut off.
// (kubelet kuberuntime_container.go:killContainersWithSyncResult)
func (e *Executor) killRunning(ctx context.Context, r plan.KillRequest) (results []plan.Result, cut error) {
	var running []*plan.ContainerStatus
	var names []string
	for i := range r.Observed.Containers {
		if c := &r.Observed.Containers[i]; c.State == plan.ContainerRunning {
			running, names = append(running, c), append(names, c.Name)
		}
	}
	e.closeRecords(ctx, r, running)
	turns := newTurns(r.Pod, names)
	results = make([]plan.Result, len(running))
	errs := make([]error, len(running))
	var wg sync.WaitGroup
	for i, c := range running {
		wg.Go(func() {
			errs[i] = e.kill(ctx, r.Pod, c.ID, c.Name, forContainer(r, c), turns)
			results[i] = killResult(c.Name, errs[i])
		})
	}
	wg.Wait()
	for _, err := range errs {
		if errors.Is(err, ErrInterrupted) || (err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())) {
			return results, err
		}
	}
	return results, nil
}

// killResult is the result of a kill.
func killResult(name string, err error) plan.Result {
	result := plan.Result{Action: plan.ActionKillContainer, Target: name}
	if err != nil {
		result.Err, result.Message = ErrKillContainer, runtimeerror.Text(err)
	}
	return result
}

// forContainer are the options for one container of the pod.
func forContainer(r plan.KillRequest, c *plan.ContainerStatus) KillOptions {
	opts := KillOptions{
		Trigger: r.Trigger, Story: r.Message, RequestedBy: r.RequestedBy,
		Override:   r.Override,
		FromRecord: goesByRecord(r.Pod, c, r.Trigger),
	}
	for i := range r.Open {
		if rec := &r.Open[i].Record; rec.ContainerID == c.ID && rec.Phase != v1alpha1.KillPhaseDone {
			opts.Resume = &r.Open[i]
		}
	}
	return opts
}

// goesByRecord tells whether a container is killed by what was recorded when it
// was created: the pod does not name it any more, or defines it differently, so
// that the hook may not exist in its image. An orphan's pod is made of records.
func goesByRecord(pod *corev1.Pod, c *plan.ContainerStatus, trigger v1alpha1.KillTrigger) bool {
	spec := podspec.Container(pod, c.Name)
	if spec == nil {
		return true
	}
	if trigger == v1alpha1.TriggerOrphan {
		return false
	}
	return plan.Redefined(spec, c)
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
