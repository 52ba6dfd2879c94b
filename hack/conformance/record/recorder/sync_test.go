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
	"github.com/managedworkload/managedworkload/hack/recordings"
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
	out["trace"] = syncTrace(f.trace, actions, running)
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

func syncRuntime(c *cases.Sync) *fakeRuntime {
	f := &fakeRuntime{
		hooks: c.Hooks, images: map[string]bool{}, pullError: c.Runtime.PullError, createError: c.Runtime.CreateError,
		startError: c.Runtime.StartError, runError: c.Runtime.RunPodSandboxError, statusError: c.Runtime.PodSandboxStatusError,
	}
	for _, image := range c.ImagesPresent {
		f.images[image] = true
	}
	for i := range c.PodStatus.Containers {
		in := &c.PodStatus.Containers[i]
		fc := &fakeContainer{ContainerStatus: runtimeapi.ContainerStatus{
			Id: in.ID, Metadata: &runtimeapi.ContainerMetadata{Name: in.Name, Attempt: uint32(in.RestartCount)},
			State:     runtimeapi.ContainerState(runtimeapi.ContainerState_value[stateNames[in.State]]),
			CreatedAt: in.CreatedAt.UnixNano(), StartedAt: in.StartedAt.UnixNano(), FinishedAt: in.FinishedAt.UnixNano(),
			ExitCode: int32(in.ExitCode), Reason: in.Reason, Image: &runtimeapi.ImageSpec{Image: in.Image}, ImageRef: in.ImageRef,
			Labels: labelsOf(string(c.Pod.UID), c.Pod.Name, c.Pod.Namespace, in.Name),
		}}
		if len(c.PodStatus.Sandboxes) > 0 {
			fc.sandbox = c.PodStatus.Sandboxes[0].ID
		}
		for _, script := range c.Runtime.Containers {
			if script.ID == in.ID {
				fc.stopSeconds, fc.stopError, fc.removeError = script.StopSeconds, script.StopError, script.RemoveError
			}
		}
		f.containers = append(f.containers, fc)
	}
	for i, s := range cases.Kubelet(&c.PodStatus).SandboxStatuses {
		s.Labels = labelsOf(string(c.Pod.UID), c.Pod.Name, c.Pod.Namespace, "")
		fs := &fakeSandbox{PodSandboxStatus: *s}
		for _, script := range c.Runtime.Sandboxes {
			if script.ID == c.PodStatus.Sandboxes[i].ID {
				fs.stopError = script.StopError
			}
		}
		f.sandboxes = append(f.sandboxes, fs)
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
