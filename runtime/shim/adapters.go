// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/probe"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// executorAdapter lets a worker see the executor as its own interface.
type executorAdapter struct{ *executor.Executor }

// Sync implements podworker.Executor.
func (a executorAdapter) Sync(ctx context.Context, r podworker.SyncRequest) podworker.SyncOutcome {
	result := a.SyncPod(ctx, executor.SyncInput{
		Pod: r.Pod, Observed: r.Observed, Actions: r.Actions, Backoff: r.Backoff,
		BackoffPolicy: &r.BackoffPolicy, Actuated: r.Actuated, RequestedBy: r.RequestedBy,
	})
	outcome := podworker.SyncOutcome{BackoffUntil: result.MinBackoffExpiration, Tried: map[string]status.Reason{}}
	if !result.OnlyBackoff() {
		outcome.Err = result.Error()
	}
	for _, step := range result.Results {
		if errors.Is(step.Err, executor.ErrResizePodInPlace) {
			outcome.ResizeError = step.Message
		}
		if errors.Is(step.Err, executor.ErrKillContainer) || errors.Is(step.Err, executor.ErrKillPodSandbox) {
			outcome.KillError = step.Target + ": " + step.Message
		}
	}
	for _, name := range result.Started {
		outcome.Tried[name] = status.Reason{}
	}
	for name, reason := range result.Waiting {
		outcome.Tried[name] = status.Reason{Reason: reason.Reason, Message: reason.Message}
	}
	return outcome
}

// Kill implements podworker.Executor.
func (a executorAdapter) Kill(ctx context.Context, r podworker.KillRequest) error {
	_, err := a.KillPod(ctx, r.Pod, r.Observed, executor.KillPodOptions{
		Trigger: r.Trigger, RequestedBy: r.RequestedBy, Override: &r.Grace, Source: r.Source, Resume: r.Resume,
	})
	return err
}

// RemoveDead implements podworker.Executor.
func (a executorAdapter) RemoveDead(ctx context.Context, observed *plan.PodStatus, exitedID string) error {
	return a.Executor.RemoveDead(ctx, observed, exitedID, false)
}

// probeAdapter lets a worker see the probe manager as its own interface.
type probeAdapter struct{ *probe.Manager }

// probeKinds are the kinds of probes that ask for kills.
var probeKinds = map[v1alpha1.KillTrigger]string{
	v1alpha1.TriggerLivenessProbe: "liveness",
	v1alpha1.TriggerStartupProbe:  "startup",
}

// LastFailure implements podworker.Prober.
func (a probeAdapter) LastFailure(uid types.UID, containerID string, trigger v1alpha1.KillTrigger) string {
	kind, message, failures := a.Manager.LastFailure(uid, containerID)
	if kind == "" || kind != probeKinds[trigger] {
		return ""
	}
	return fmt.Sprintf("%dx, %s", failures, message)
}

// podDirAdapter lets a worker see the pod directories as its own interface.
type podDirAdapter struct {
	*poddir.Manager
	forget func(types.UID)
}

// Remove implements podworker.PodDir.
func (a podDirAdapter) Remove(ctx context.Context, id podworker.Identity) error {
	a.forget(id.UID)
	return a.Manager.Remove(ctx, poddir.Identity(id))
}

// killSink hands the records to the pool, which is made after the executor.
type killSink struct{ pool func() *podworker.Pool }

// Kill implements executor.KillSink.
func (s killSink) Kill(uid types.UID, rec v1alpha1.KillRecord) { s.pool().Kill(uid, rec) }

// indexKnown finds workers by UID.
func indexKnown(known []podworker.Known) map[types.UID]podworker.Known {
	byUID := make(map[types.UID]podworker.Known, len(known))
	for _, k := range known {
		byUID[k.UID] = k
	}
	return byUID
}
