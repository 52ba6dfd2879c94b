// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/managedworkload/managedworkload/hack/conformance/record/cases"
	"github.com/managedworkload/managedworkload/hack/fakecri"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/hack/scenario"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func decideSync(t *testing.T, c *cases.Sync) {
	time.Sleep(time.Until(c.Now))
	f := syncRuntime(c)
	m := newManager(t, f, podStates{terminating: c.PodTerminationRequested}, c.Probes)
	backOff, observed, pod := syncBackoff(c), cases.Kubelet(&c.PodStatus), c.Pod.DeepCopy()
	actions := m.Actions(t.Context(), pod, observed, c.RestartAllContainers)
	result := m.SyncPod(t.Context(), pod, observed, nil, backOff, c.RestartAllContainers)
	m.settle()
	out := entry{"actions": actions, "results": resultsOf(result.SyncResults), "syncError": "", "minBackoffExpiration": nil}
	if result.SyncError != nil {
		out["syncError"] = result.SyncError.Error()
	}
	if at, found := kubecontainer.MinBackoffExpiration(result.Error()); found {
		out["minBackoffExpiration"] = at.UTC().Format(time.RFC3339Nano)
	}
	after := map[string]float64{}
	for _, container := range slices.Concat(c.Pod.Spec.InitContainers, c.Pod.Spec.Containers) {
		if d := backOff.Get(kuberuntime.GetBackoffKey(c.Pod, &container)); d > 0 {
			after[container.Name] = d.Seconds()
		}
	}
	out["backOffAfter"] = after
	running := 0
	for i := range c.PodStatus.Containers {
		if c.PodStatus.Containers[i].State == "running" {
			running++
		}
	}
	out["trace"] = syncTrace(f.Trace(), actions, running)
	c.Output = out
}

// syncBackoff has the entries of a case.
func syncBackoff(c *cases.Sync) *flowcontrol.Backoff {
	then := clocktesting.NewFakeClock(time.Time{})
	b := flowcontrol.NewFakeBackOff(10*time.Second, 300*time.Second, then)
	b.HasExpiredFunc = func(at, last time.Time, _ time.Duration) bool { return at.Sub(last) > 600*time.Second }
	for _, entry := range c.Backoff {
		then.SetTime(entry.LastUpdate)
		for _, container := range slices.Concat(c.Pod.Spec.InitContainers, c.Pod.Spec.Containers) {
			if container.Name != entry.Container {
				continue
			}
			key := kuberuntime.GetBackoffKey(c.Pod, &container)
			for b.Get(key).Seconds() < entry.BackoffSeconds {
				b.Next(key, entry.LastUpdate)
			}
		}
	}
	b.Clock = clock.RealClock{}
	return b
}

func syncRuntime(c *cases.Sync) *fakecri.Recorded {
	f := fakecri.NewRecorded(c.Hooks, c.ImagesPresent...)
	f.FailAs(&c.Runtime)
	scripts := map[string]recordings.SyncContainer{}
	for _, script := range c.Runtime.Containers {
		scripts[script.ID] = script
	}
	stopErrors := map[string]string{}
	for _, script := range c.Runtime.Sandboxes {
		stopErrors[script.ID] = script.StopError
	}
	sandbox := ""
	if len(c.PodStatus.Sandboxes) > 0 {
		sandbox = c.PodStatus.Sandboxes[0].ID
	}
	for i := range c.PodStatus.Containers {
		in := &c.PodStatus.Containers[i]
		script := scripts[in.ID]
		f.Put(&fakecri.Container{
			ContainerStatus: plan.ContainerStatus{
				ID: in.ID, Name: in.Name, SandboxID: sandbox, RestartCount: in.RestartCount, State: plan.ContainerState(in.State),
				CreatedAt: in.CreatedAt.Time, StartedAt: in.StartedAt.Time, FinishedAt: in.FinishedAt.Time,
				ExitCode: int32(in.ExitCode), Reason: in.Reason, Image: in.Image, ImageRef: in.ImageRef,
			},
			Labels: labelsOf(string(c.Pod.UID), c.Pod.Name, c.Pod.Namespace, in.Name),
			Script: scenario.Script{StopSeconds: script.StopSeconds}, StopError: script.StopError, RemoveError: script.RemoveError,
		})
	}
	for _, in := range c.PodStatus.Sandboxes {
		s := &fakecri.Sandbox{
			SandboxStatus: plan.SandboxStatus{
				ID: in.ID, State: plan.SandboxState(in.State), Attempt: in.Attempt, CreatedAt: time.Unix(0, in.CreatedAt),
				NetworkNamespace: in.NetworkNamespace, Network: (*plan.SandboxNetwork)(in.Network),
			},
			Metadata: &runtimeapi.PodSandboxMetadata{Name: c.PodStatus.Name, Namespace: c.PodStatus.Namespace, Uid: c.PodStatus.ID},
			Labels:   labelsOf(string(c.Pod.UID), c.Pod.Name, c.Pod.Namespace, ""), StopError: stopErrors[in.ID],
		}
		f.PutSandbox(s)
	}
	return f
}

// syncTrace brings into one order what the kubelet leaves to goroutines and maps:
// parallel kills, kills from a map, removals.
func syncTrace(trace []entry, actions kuberuntime.RecordedActions, running int) []entry {
	stopsSandbox := slices.ContainsFunc(trace, func(e entry) bool { return e.Text("op") == "StopPodSandbox" })
	if actions.KillPod {
		kills := recordings.EndOfKills(trace, running)
		trace = append(recordings.SortKills(trace[:kills]), trace[kills:]...)
	} else {
		trace = recordings.GroupKills(trace, len(actions.ContainersToKill))
	}
	if len(actions.ContainersToReset) == 0 || actions.KillPod {
		trace = recordings.SortRemovals(trace, actions.KillPod && !stopsSandbox)
	}
	out := []entry{}
	for _, e := range trace {
		e = maps.Clone(e)
		delete(e, "t")
		out = append(out, e)
	}
	return out
}
