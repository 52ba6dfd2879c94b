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

func TestComputeStrays(t *testing.T) {
	t.Parallel()
	removed := func(id, name string) plan.Kill {
		return plan.Kill{
			ID:         id,
			Name:       name,
			Trigger:    v1alpha1.TriggerContainerRemoved,
			Message:    "Container " + name + " was removed from the template",
			Removed:    true,
			FromRecord: true,
		}
	}
	second := func(id, name string) plan.Kill {
		return plan.Kill{
			ID:      id,
			Name:    name,
			Trigger: v1alpha1.TriggerUnknownState,
			Message: "Container " + name + " has a newer instance",
		}
	}
	tests := map[string]struct {
		extra  []plan.ContainerStatus
		change func(*plan.Input)
		want   []plan.Kill
	}{
		"removed, by name": {
			extra: []plan.ContainerStatus{
				{ID: "1", Name: "y", State: plan.ContainerRunning, Hash: "v1:any"},
				{ID: "2", Name: "x", State: plan.ContainerUnknown, Hash: "v1:any"},
			},
			want: []plan.Kill{removed("2", "x"), removed("1", "y")},
		},
		"removed, several instances": {
			extra: []plan.ContainerStatus{
				{ID: "2", Name: "x", State: plan.ContainerRunning, Hash: "v1:any"},
				{ID: "1", Name: "x", State: plan.ContainerRunning, Hash: "v1:any"},
			},
			want: []plan.Kill{removed("1", "x"), removed("2", "x")},
		},
		"removed and over": {
			extra: []plan.ContainerStatus{
				{ID: "1", Name: "x", State: plan.ContainerExited, Hash: "v1:any"},
				{ID: "2", Name: "x", State: plan.ContainerCreated, Hash: "v1:any"},
			},
		},
		"not made from a template": {
			extra: []plan.ContainerStatus{{ID: "1", Name: "x", State: plan.ContainerRunning}},
		},
		"no definitions given": {
			extra:  []plan.ContainerStatus{{ID: "1", Name: "x", State: plan.ContainerRunning, Hash: "v1:any"}},
			change: func(in *plan.Input) { in.Definitions = nil },
		},
		"an ephemeral container is in the spec": {
			extra: []plan.ContainerStatus{{ID: "1", Name: "e", State: plan.ContainerRunning, Hash: "v1:any"}},
			change: func(in *plan.Input) {
				in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
					{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}},
				}
			},
		},
		"second instances, then removed ones": {
			extra: []plan.ContainerStatus{
				{ID: "4", Name: "x", State: plan.ContainerRunning, Hash: "v1:any"},
				{ID: "3", Name: "b", State: plan.ContainerRunning},
				{ID: "2", Name: "s1", State: plan.ContainerRunning},
				{ID: "1", Name: "a", State: plan.ContainerExited},
				{ID: "0", Name: "a", State: plan.ContainerUnknown},
			},
			want: []plan.Kill{second("2", "s1"), second("3", "b"), removed("4", "x")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(corev1.RestartPolicyAlways, "s1", "a", "b")
			in.Observed.Containers = append(in.Observed.Containers, tt.extra...)
			if tt.change != nil {
				tt.change(&in)
			}
			want := plan.Actions{SandboxID: "sandbox", Attempt: 3, ContainersToKill: tt.want}
			if diff := cmp.Diff(want, plan.Compute(in), why); diff != "" {
				t.Errorf("Actions differ (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod kill takes everything that runs; there is nothing beside it to kill.
func TestComputeStraysInPodKill(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyNever, "a")
	status(in, "a").State = plan.ContainerExited
	in.Observed.Containers = append(in.Observed.Containers,
		plan.ContainerStatus{ID: "1", Name: "x", State: plan.ContainerRunning, Hash: "v1:any"})
	got := plan.Compute(in)
	if !got.KillPod || len(got.ContainersToKill) != 0 {
		t.Errorf("Compute = %+v, want a pod kill and no other", got)
	}
}
