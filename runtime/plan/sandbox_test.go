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

func TestComputeSandboxChanged(t *testing.T) {
	t.Parallel()
	changed := plan.Actions{
		KillPod:           true,
		Trigger:           v1alpha1.TriggerSandboxChanged,
		CreateSandbox:     true,
		SandboxID:         "sandbox",
		Attempt:           4,
		ContainersToStart: []int{0},
	}
	with := func(change func(*plan.Actions)) plan.Actions {
		want := changed
		change(&want)
		return want
	}
	tests := map[string]struct {
		policy corev1.RestartPolicy
		change func(plan.Input)
		want   plan.Actions
	}{
		"none": {
			change: func(in plan.Input) { in.Observed.Sandboxes = nil },
			want: with(func(a *plan.Actions) {
				a.Message, a.SandboxID, a.Attempt = "Pod has no sandbox", "", 0
			}),
		},
		"two ready ones": {
			change: func(in plan.Input) {
				in.Observed.Sandboxes = append(in.Observed.Sandboxes, plan.SandboxStatus{State: plan.SandboxReady})
			},
			want: with(func(a *plan.Actions) { a.Message = "Pod has more than one ready sandbox" }),
		},
		"not ready": {
			change: func(in plan.Input) { in.Observed.Sandboxes[0].State = plan.SandboxNotReady },
			want:   with(func(a *plan.Actions) { a.Message = "Pod sandbox is not ready" }),
		},
		"another network mode": {
			change: func(in plan.Input) { in.Pod.Spec.HostNetwork = true },
			want: with(func(a *plan.Actions) {
				a.Message, a.SandboxID, a.Redefined = "Network mode of the pod changed", "", true
			}),
		},
		"no address": {
			change: func(in plan.Input) { in.Observed.Sandboxes[0].Network.IP = "" },
			want:   with(func(a *plan.Actions) { a.Message = "Pod sandbox has no IP address" }),
		},
		"pod definition changed": {
			change: func(in plan.Input) { in.Definitions.Pod = "v1:other" },
			want:   with(func(a *plan.Actions) { a.Message, a.Redefined = "Pod definition changed", true }),
		},
		"pod definition changed, never restarted": {
			policy: corev1.RestartPolicyNever,
			change: func(in plan.Input) { in.Definitions.Pod = "v1:other" },
			want:   with(func(a *plan.Actions) { a.Message, a.Redefined = "Pod definition changed", true }),
		},
		"pod definition changed and the new sandbox was not created yet": {
			policy: corev1.RestartPolicyNever,
			change: func(in plan.Input) {
				in.Definitions.Pod = "v1:other"
				in.Observed.Sandboxes[0].State = plan.SandboxNotReady
				status(in, "a").State = plan.ContainerExited
			},
			want: with(func(a *plan.Actions) { a.Message = "Pod sandbox is not ready" }),
		},
		"not ready, never restarted": {
			policy: corev1.RestartPolicyNever,
			change: func(in plan.Input) { in.Observed.Sandboxes[0].State = plan.SandboxNotReady },
			want: with(func(a *plan.Actions) {
				a.Message, a.CreateSandbox, a.ContainersToStart = "Pod sandbox is not ready", false, nil
			}),
		},
		"not ready, and everything succeeded": {
			policy: corev1.RestartPolicyOnFailure,
			change: func(in plan.Input) {
				in.Observed.Sandboxes[0].State = plan.SandboxNotReady
				status(in, "a").State = plan.ContainerExited
			},
			want: with(func(a *plan.Actions) {
				a.Trigger, a.Message = v1alpha1.TriggerWorkloadFinished, "no container is left to start"
				a.CreateSandbox, a.ContainersToStart = false, nil
			}),
		},
		"a mode that is not reported is a pod network": {
			change: func(in plan.Input) { in.Observed.Sandboxes[0].NetworkNamespace = "" },
			want:   plan.Actions{SandboxID: "sandbox", Attempt: 3},
		},
		"pod definition not recorded": {
			change: func(in plan.Input) { in.Observed.Sandboxes[0].Hash = "" },
			want:   plan.Actions{SandboxID: "sandbox", Attempt: 3},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := tt.policy
			if policy == "" {
				policy = corev1.RestartPolicyAlways
			}
			in := runningInput(policy, "a")
			tt.change(in)
			if diff := cmp.Diff(tt.want, plan.Compute(in), why); diff != "" {
				t.Errorf("Actions differ (-want +got):\n%s", diff)
			}
		})
	}
}

// Containers that are proved to run outside the pod's cgroup are killed like those of
// a changed sandbox, with the grace period of the pod, and run again in a new one as
// their policy says. The kubelet kills for this only where a main container runs.
func TestComputePodCgroupMissing(t *testing.T) {
	t.Parallel()
	const message = "Pod cgroup is missing, and the containers run outside of it"
	killed := plan.Actions{
		KillPod: true, Trigger: v1alpha1.TriggerPodCgroupMissing, Message: message, CreateSandbox: true,
		SandboxID: "sandbox", Attempt: 4, ContainersToStart: []int{0},
	}
	kept := plan.Actions{SandboxID: "sandbox", Attempt: 3}
	with := func(change func(*plan.Actions)) plan.Actions {
		want := killed
		change(&want)
		return want
	}
	tests := map[string]struct {
		policy     corev1.RestartPolicy
		containers []string
		change     func(*plan.Input)
		want       plan.Actions
	}{
		"restarted always":     {policy: corev1.RestartPolicyAlways, want: killed},
		"restarted on failure": {policy: corev1.RestartPolicyOnFailure, want: killed},
		"never restarted": {policy: corev1.RestartPolicyNever, want: with(func(a *plan.Actions) {
			a.CreateSandbox, a.ContainersToStart = false, nil
		})},
		"begins with its init container": {containers: []string{"i1", "a"}, want: with(func(a *plan.Actions) {
			a.InitContainersToStart, a.ContainersToStart = []int{0}, nil
		})},
		"not proved": {change: func(in *plan.Input) { in.OutsideCgroup = false }, want: kept},
		"no main container runs yet": {
			containers: []string{"s1", "a"},
			change:     func(in *plan.Input) { in.Observed.Containers = in.Observed.Containers[:1] },
			want:       plan.Actions{SandboxID: "sandbox", Attempt: 3, ContainersToStart: []int{0}},
		},
		"no main container runs any more": {
			change: func(in *plan.Input) { in.Observed.Containers[0].State = plan.ContainerExited },
			want:   plan.Actions{SandboxID: "sandbox", Attempt: 3, ContainersToStart: []int{0}},
		},
		"the sandbox changed too": {
			change: func(in *plan.Input) { in.Definitions.Pod = "v1:other" },
			want: with(func(a *plan.Actions) {
				a.Trigger, a.Message, a.Redefined = v1alpha1.TriggerSandboxChanged, "Pod definition changed", true
			}),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.policy == "" {
				tt.policy = corev1.RestartPolicyAlways
			}
			if tt.containers == nil {
				tt.containers = []string{"a"}
			}
			in := runningInput(tt.policy, tt.containers...)
			in.OutsideCgroup = true
			if tt.change != nil {
				tt.change(&in)
			}
			if diff := cmp.Diff(tt.want, plan.Compute(in), why); diff != "" {
				t.Errorf("Actions differ (-want +got):\n%s", diff)
			}
		})
	}
}
