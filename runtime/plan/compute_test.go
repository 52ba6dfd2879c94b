// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// What the kubelet decides is replayed from its recorded decisions; these are
// the decisions of our own, and what the recordings do not hold.
func TestCompute(t *testing.T) {
	t.Parallel()
	running := plan.Actions{SandboxID: "sandbox", Attempt: 3}
	tests := map[string]struct {
		in     plan.Input
		change func(plan.Input)
		want   plan.Actions
	}{
		"running as it should": {
			in:   runningInput(corev1.RestartPolicyAlways, "i1", "s1", "a", "b"),
			want: running,
		},
		"definition changed, kills in the order of the spec": {
			in: runningInput(corev1.RestartPolicyNever, "s1", "s2", "b", "a"),
			change: func(in plan.Input) {
				for _, name := range []string{"a", "b", "s1", "s2"} {
					status(in, name).Hash = "v2:other"
				}
			},
			want: plan.Actions{
				SandboxID: "sandbox",
				Attempt:   3,
				ContainersToKill: []plan.Kill{
					after(definitionKill("s1", "Init container s1 definition changed"), "b", "a", "s2"),
					after(definitionKill("s2", "Init container s2 definition changed"), "b", "a"),
					definitionKill("b", "Container b definition changed, will be restarted"),
					definitionKill("a", "Container a definition changed, will be restarted"),
				},
				InitContainersToStart: []int{0, 1},
				ContainersToStart:     []int{0, 1},
			},
		},
		"no definition known": {
			in:     runningInput(corev1.RestartPolicyAlways, "s1", "a"),
			change: func(in plan.Input) { status(in, "a").Hash, status(in, "s1").Hash = "", "" },
			want:   running,
		},
		"definition of another version": {
			in:     runningInput(corev1.RestartPolicyAlways, "a"),
			change: func(in plan.Input) { status(in, "a").Hash = "v0:other" },
			want:   running,
		},
		"restart requested": {
			in: runningInput(corev1.RestartPolicyNever, "i1", "s1", "a"),
			change: func(in plan.Input) {
				in.Definitions.RestartedAt = "2026-01-01T00:00:00Z"
			},
			want: plan.Actions{
				SandboxID: "sandbox",
				Attempt:   3,
				ContainersToKill: []plan.Kill{
					{ID: "s1-id", Name: "s1", Trigger: v1alpha1.TriggerRestartRequested,
						Message: "Init container s1 restart requested", WaitsFor: []string{"a"}},
					{ID: "a-id", Name: "a", Trigger: v1alpha1.TriggerRestartRequested,
						Message: "Container a restart requested, will be restarted"},
				},
				InitContainersToStart: []int{1},
				ContainersToStart:     []int{0},
			},
		},
		"restart requested and served": {
			in: runningInput(corev1.RestartPolicyAlways, "a"),
			change: func(in plan.Input) {
				in.Definitions.RestartedAt = "2026-01-01T00:00:00Z"
				status(in, "a").Recorded.RestartedAt = "2026-01-01T00:00:00Z"
			},
			want: running,
		},
		"restart no longer requested": {
			in:     runningInput(corev1.RestartPolicyAlways, "a"),
			change: func(in plan.Input) { status(in, "a").Recorded.RestartedAt = "2026-01-01T00:00:00Z" },
			want:   running,
		},
		"restart requested of a container without a record": {
			in: runningInput(corev1.RestartPolicyAlways, "a"),
			change: func(in plan.Input) {
				in.Definitions.RestartedAt = "2026-01-01T00:00:00Z"
				status(in, "a").Hash = ""
			},
			want: running,
		},
		"a sidecar that has not started keeps its definition": {
			in: runningInput(corev1.RestartPolicyAlways, "s1", "a"),
			change: func(in plan.Input) {
				spec(in, "s1").StartupProbe = &corev1.Probe{}
				status(in, "s1").Hash = "v2:other"
				in.Probes["s1-id"] = plan.ProbeResults{Startup: plan.ProbeUnknown, Liveness: plan.ProbeFailure}
			},
			want: running,
		},
		"startup of a sidecar before its changed definition, from the record": {
			in: runningInput(corev1.RestartPolicyAlways, "s1", "a"),
			change: func(in plan.Input) {
				spec(in, "s1").StartupProbe = &corev1.Probe{}
				status(in, "s1").Hash = "v2:other"
				in.Probes["s1-id"] = plan.ProbeResults{Startup: plan.ProbeFailure}
			},
			want: plan.Actions{
				SandboxID: "sandbox",
				Attempt:   3,
				ContainersToKill: []plan.Kill{{ID: "s1-id", Name: "s1", Trigger: v1alpha1.TriggerStartupProbe,
					Message: "Init container s1 failed startup probe", FromRecord: true}},
				InitContainersToStart: []int{0},
			},
		},
		"liveness with the hook of the present template": {
			in: runningInput(corev1.RestartPolicyAlways, "a"),
			change: func(in plan.Input) {
				in.Probes["a-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure, Startup: plan.ProbeFailure}
			},
			want: plan.Actions{
				SandboxID: "sandbox",
				Attempt:   3,
				ContainersToKill: []plan.Kill{{ID: "a-id", Name: "a", Trigger: v1alpha1.TriggerLivenessProbe,
					Message: "Container a failed liveness probe, will be restarted"}},
				ContainersToStart: []int{0},
			},
		},
		"liveness of the last container, never restarted": {
			in: runningInput(corev1.RestartPolicyNever, "s1", "a"),
			change: func(in plan.Input) {
				in.Probes["a-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure}
			},
			want: plan.Actions{
				KillPod:   true,
				Trigger:   v1alpha1.TriggerWorkloadFinished,
				Message:   "Container a failed liveness probe, no container is left to keep or to start",
				SandboxID: "sandbox",
				Attempt:   3,
				ContainersToKill: []plan.Kill{{ID: "a-id", Name: "a", Trigger: v1alpha1.TriggerLivenessProbe,
					Message: "Container a failed liveness probe"}},
			},
		},
		"the last container completed": {
			in: runningInput(corev1.RestartPolicyOnFailure, "s1", "a"),
			change: func(in plan.Input) {
				status(in, "a").State = plan.ContainerExited
			},
			want: plan.Actions{
				KillPod:   true,
				Trigger:   v1alpha1.TriggerWorkloadFinished,
				Message:   "no container is left to keep or to start",
				SandboxID: "sandbox",
				Attempt:   3,
			},
		},
		"a verdict about a sidecar that has no such probe any more": {
			in: runningInput(corev1.RestartPolicyAlways, "s1", "a"),
			change: func(in plan.Input) {
				in.Probes["s1-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure, Startup: plan.ProbeFailure}
			},
			want: running,
		},
		"an init container that ran out of memory has failed, whatever its exit code": {
			in: runningInput(corev1.RestartPolicyNever, "i1"),
			change: func(in plan.Input) {
				status(in, "i1").Reason = "OOMKilled"
			},
			want: plan.Actions{
				KillPod:   true,
				Trigger:   v1alpha1.TriggerWorkloadFinished,
				Message:   "Init container i1 failed and is not restarted",
				SandboxID: "sandbox",
				Attempt:   3,
			},
		},
		"an init container failed for good": {
			in: runningInput(corev1.RestartPolicyNever, "i1"),
			change: func(in plan.Input) {
				status(in, "i1").ExitCode = 1
			},
			want: plan.Actions{
				KillPod:   true,
				Trigger:   v1alpha1.TriggerWorkloadFinished,
				Message:   "Init container i1 failed and is not restarted",
				SandboxID: "sandbox",
				Attempt:   3,
			},
		},
		"a sidecar in a state that no runtime reports": {
			in:     runningInput(corev1.RestartPolicyAlways, "s1", "a"),
			change: func(in plan.Input) { status(in, "s1").State = "paused" },
			want: plan.Actions{
				SandboxID: "sandbox",
				Attempt:   3,
				ContainersToKill: []plan.Kill{{ID: "s1-id", Name: "s1", Trigger: v1alpha1.TriggerUnknownState,
					Message: `Init container is in "paused" state, try killing it before restart`}},
				InitContainersToStart: []int{0},
			},
		},
		"a plain init container in a state that no runtime reports": {
			in: runningInput(corev1.RestartPolicyAlways, "i1", "a"),
			change: func(in plan.Input) {
				in.Observed.Containers = in.Observed.Containers[:1]
				status(in, "i1").State = ""
			},
			want: plan.Actions{
				SandboxID: "sandbox",
				Attempt:   3,
				ContainersToKill: []plan.Kill{{ID: "i1-id", Name: "i1", Trigger: v1alpha1.TriggerUnknownState,
					Message: `Init container is in "" state, try killing it before restart`}},
				InitContainersToStart: []int{0},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.change != nil {
				tt.change(tt.in)
			}
			if diff := cmp.Diff(tt.want, plan.Compute(tt.in), why); diff != "" {
				t.Errorf("Actions differ (-want +got):\n%s", diff)
			}
		})
	}
}

// What is not known must not be started twice.
func TestComputeWithoutFacts(t *testing.T) {
	t.Parallel()
	tests := map[string]plan.Input{
		"no pod":         {Observed: &plan.PodStatus{}},
		"no observation": {Pod: newPod(corev1.RestartPolicyAlways, "a")},
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(plan.Actions{}, plan.Compute(in)); diff != "" {
				t.Errorf("Actions differ (-want +got):\n%s", diff)
			}
		})
	}
}

// after is a kill that waits for others.
func after(k plan.Kill, waitsFor ...string) plan.Kill {
	k.WaitsFor = waitsFor
	return k
}

func definitionKill(name, message string) plan.Kill {
	return plan.Kill{
		ID:         name + "-id",
		Name:       name,
		Trigger:    v1alpha1.TriggerDefinitionChanged,
		Message:    message,
		FromRecord: true,
	}
}
