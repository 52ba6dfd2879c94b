// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func askedStop() plan.Asked {
	return plan.Asked{Trigger: v1alpha1.TriggerStopRequested, Cause: "KillRequest k: noisy", RequestedBy: "alice"}
}

// A requested restart kills the instance that it is about, as other deliberate changes do, and
// the record has who asked and why; the event has the house's words.
func TestAskedRestart(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyNever, "a", "b")
	in.Asked = map[string]plan.Asked{"a": {
		Trigger: v1alpha1.TriggerRestartRequested, ContainerID: "a-id", Cause: "KillRequest k: leaks", RequestedBy: "alice", Grace: new(int64(7)),
	}}
	got := plan.Compute(in)
	want := []plan.Kill{{
		ID: "a-id", Name: "a", Trigger: v1alpha1.TriggerRestartRequested, Message: "Container a restart requested, will be restarted",
		Cause: "Container a restart requested, will be restarted: KillRequest k: leaks", RequestedBy: "alice",
		Grace: plan.Grace{Seconds: 7, Source: v1alpha1.GraceSourceOverride}, Container: spec(in, "a"),
	}}
	if diff := cmp.Diff(want, got.ContainersToKill); diff != "" || !slices.Equal(got.ContainersToStart, []int{0}) {
		t.Errorf("starts %v, kills (-want +got):\n%s", got.ContainersToStart, diff)
	}

	status(in, "a").ID = "a-2" // another instance has taken its place
	if got := plan.Compute(in); len(got.ContainersToKill)+len(got.ContainersToStart) > 0 {
		t.Errorf("The instance after it is killed: %+v", got)
	}
}

// What a request killed is started again whatever the restart policy, also by a shim that
// comes after the one that killed it.
func TestAskedRestartOfOneThatEnded(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyNever, "a", "b")
	in.Asked = map[string]plan.Asked{"a": {Trigger: v1alpha1.TriggerRestartRequested, ContainerID: "a-id"}}
	status(in, "a").State = plan.ContainerExited
	if got := plan.Compute(in); !slices.Equal(got.ContainersToStart, []int{0}) || got.KillPod {
		t.Errorf("Not started: %+v", got)
	}
}

// A restart that is requested waits for the image, as any deliberate one; a stop does not.
func TestAskedWaitsForImage(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "a")
	in.Differences = plan.AllDifferences()
	in.Asked = map[string]plan.Asked{"a": {Trigger: v1alpha1.TriggerRestartRequested, ContainerID: "a-id"}}
	if got := plan.Compute(in); len(got.ContainersToKill) > 0 || len(got.Waits) != 1 {
		t.Errorf("Killed before the image is there: %+v", got)
	}
	if keys := plan.ImagesInUse(in); len(keys) != 1 {
		t.Errorf("What was pulled for it is dropped: %v", keys)
	}
	in.Asked = map[string]plan.Asked{"a": askedStop()}
	if got := plan.Compute(in); len(got.ContainersToKill) != 1 || got.Waiting() {
		t.Errorf("A stop waits: %+v", got)
	}
	// One that has ended by itself meanwhile is started with the image too.
	in.Asked = map[string]plan.Asked{"a": {Trigger: v1alpha1.TriggerRestartRequested, ContainerID: "a-id"}}
	exited(in, "a", "a-id", false)
	if got := plan.Compute(in); len(got.ContainersToStart) > 0 || len(got.Held) != 1 {
		t.Errorf("Started before the image is there: %+v", got)
	}
}

// A container that is kept stopped is killed once and not started, and its pod does not end.
func TestAskedStop(t *testing.T) {
	t.Parallel()
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever} {
		in := runningInput(policy, "a")
		in.Asked = map[string]plan.Asked{"a": askedStop()}
		in.Probes["a-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure}
		got := plan.Compute(in)
		if len(got.ContainersToKill) != 1 || got.ContainersToKill[0].Trigger != v1alpha1.TriggerStopRequested || got.KillPod || len(got.ContainersToStart) > 0 {
			t.Errorf("%s: it runs: %+v", policy, got)
		}
		if message := got.ContainersToKill[0].EventMessage(); message != "Container a stop requested" {
			t.Errorf("%s: event %q", policy, message)
		}
		status(in, "a").State = plan.ContainerExited
		if got := plan.Compute(in); len(got.ContainersToKill)+len(got.ContainersToStart) > 0 || got.KillPod {
			t.Errorf("%s: it is stopped: %+v", policy, got)
		}
		in.Observed.Sandboxes[0].State = plan.SandboxNotReady // after a reboot
		if got := plan.Compute(in); got.KillPod || got.CreateSandbox || len(got.ContainersToStart) > 0 {
			t.Errorf("%s: its sandbox is gone: %+v", policy, got)
		}
		in.Asked = nil
		if got := plan.Compute(in); policy == corev1.RestartPolicyAlways && !slices.Equal(got.ContainersToStart, []int{0}) {
			t.Errorf("%s: it is let go: %+v", policy, got)
		}
	}
}

// A sidecar that is kept stopped holds up no restart of the containers after it.
func TestAskedStopOfSidecar(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "s", "a")
	in.Asked = map[string]plan.Asked{"s": askedStop()}
	if got := plan.Compute(in); len(got.ContainersToKill) != 1 || len(got.InitContainersToStart) > 0 {
		t.Errorf("It runs: %+v", got)
	}
	status(in, "s").State = plan.ContainerExited
	status(in, "a").State = plan.ContainerExited
	if got := plan.Compute(in); len(got.InitContainersToStart) > 0 || !slices.Equal(got.ContainersToStart, []int{0}) {
		t.Errorf("It is stopped: %+v", got)
	}
}

// Whatever a runtime reports, what is kept stopped is not started, and its pod is not ended
// for that.
func TestPropertyAskedStop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Asked = map[string]plan.Asked{}
		for i := range in.Pod.Spec.Containers {
			in.Asked[in.Pod.Spec.Containers[i].Name] = askedStop()
		}
		got := plan.Compute(in)
		if len(got.ContainersToStart) > 0 {
			t.Fatalf("Started: %+v", got)
		}
		if got.KillPod && got.Trigger == v1alpha1.TriggerWorkloadFinished && len(in.Pod.Spec.InitContainers) == 0 {
			t.Fatalf("Ended: %+v", got)
		}
	})
}

// The end of what a request stopped, or restarts, counts for no back-off.
func TestBackoffForgivesRequests(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := newPod(corev1.RestartPolicyAlways, "c")
	c := &pod.Spec.Containers[0]
	r := plan.SyncRequest{Pod: pod, Observed: &plan.PodStatus{Containers: []plan.ContainerStatus{
		{ID: "c1", Name: "c", State: plan.ContainerExited, FinishedAt: now.Add(-time.Second), Hash: plan.HashContainer(c)},
	}}, Backoff: map[string]*plan.Backoff{plan.BackoffKey(pod, c): {Current: 160 * time.Second, LastUpdate: now.Add(-time.Minute)}}}
	if _, _, wait := plan.CheckBackoff(&r, c, plan.AllDifferences(), plan.Moment{Wall: now}); wait == nil {
		t.Error("It crashed and does not wait")
	}
	r.Forgiven = []string{"c1"}
	if _, next, wait := plan.CheckBackoff(&r, c, plan.AllDifferences(), plan.Moment{Wall: now}); wait != nil || next.Forgiven != "c1" {
		t.Errorf("It was stopped and waits: %+v, %+v", next, wait)
	}
}
