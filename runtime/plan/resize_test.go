// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

const mega = 1 << 20

// limits gives a container limits that are its requests too; "" is none.
func limits(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if value != "" {
			list[name] = resource.MustParse(value)
		}
	}
	return corev1.ResourceRequirements{Limits: list, Requests: list}
}

func given(milliCPU, memory int64) plan.Resources {
	return plan.Resources{CPULimit: milliCPU, CPURequest: milliCPU, MemoryLimit: memory, MemoryRequest: memory}
}

// recorded returns a change that lets a container run with resources.
func recorded(name string, r plan.Resources) func(*plan.Input) {
	return func(in *plan.Input) { status(*in, name).Recorded.Resources = &r }
}

func TestResize(t *testing.T) {
	t.Parallel()
	restartFor := func(name corev1.ResourceName) []corev1.ContainerResizePolicy {
		return []corev1.ContainerResizePolicy{{ResourceName: name, RestartPolicy: corev1.RestartContainer}}
	}
	tests := map[string]struct {
		resources   corev1.ResourceRequirements
		policy      []corev1.ContainerResizePolicy
		before      plan.Resources
		wantCPU     bool
		wantMemory  bool
		wantRestart bool
		change      func(*plan.Input)
	}{
		"the same":                        {resources: limits("100m", "64Mi"), before: given(100, 64*mega)},
		"CPU":                             {resources: limits("200m", "64Mi"), before: given(100, 64*mega), wantCPU: true},
		"memory":                          {resources: limits("100m", "32Mi"), before: given(100, 64*mega), wantMemory: true},
		"both":                            {resources: limits("50m", "128Mi"), before: given(100, 64*mega), wantCPU: true, wantMemory: true},
		"a request alone":                 {resources: limits("100m", "64Mi"), before: plan.Resources{CPULimit: 100, MemoryLimit: 64 * mega, MemoryRequest: 64 * mega}, wantCPU: true},
		"a limit that is taken away":      {resources: limits("", "64Mi"), before: given(100, 64*mega), wantCPU: true},
		"CPU that needs a restart":        {resources: limits("200m", "64Mi"), policy: restartFor("cpu"), before: given(100, 64*mega), wantRestart: true},
		"the policy of another resource":  {resources: limits("200m", "64Mi"), policy: restartFor("memory"), before: given(100, 64*mega), wantCPU: true},
		"both, one of which needs it":     {resources: limits("200m", "32Mi"), policy: restartFor("memory"), before: given(100, 64*mega), wantRestart: true},
		"an update counts, not the birth": {resources: limits("200m", "64Mi"), before: given(100, 64*mega), change: updated(given(200, 64*mega))},
		"another one than the update's":   {resources: limits("100m", "64Mi"), before: given(100, 64*mega), change: updated(given(200, 64*mega)), wantCPU: true},
		"what it was given is not known": {
			resources: limits("200m", "64Mi"), change: func(in *plan.Input) { status(*in, "a").Recorded.Resources = nil },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(corev1.RestartPolicyNever, "a")
			c := spec(in, "a")
			c.Resources, c.ResizePolicy = tt.resources, tt.policy
			in.Definitions = plan.Define(in.Pod)
			status(in, "a").Hash = in.Definitions.Containers["a"]
			recorded("a", tt.before)(&in)
			if tt.change != nil {
				tt.change(&in)
			}
			got := plan.Compute(in)
			if (len(got.CPUToUpdate) == 1) != tt.wantCPU || (len(got.MemoryToUpdate) == 1) != tt.wantMemory {
				t.Errorf("Updates of CPU %+v, of memory %+v", got.CPUToUpdate, got.MemoryToUpdate)
			}
			if got.Resizes() != (tt.wantCPU || tt.wantMemory || tt.wantRestart) || plan.ResizeInProgress(in) != got.Resizes() {
				t.Errorf("Resizes: %v, in progress: %v", got.Resizes(), plan.ResizeInProgress(in))
			}
			var kills []plan.Kill
			if tt.wantRestart {
				kills = []plan.Kill{{ID: "a-id", Name: "a", Trigger: v1alpha1.TriggerResizeRequired, Message: "Container a resize requires restart"}}
			}
			if diff := cmp.Diff(kills, got.ContainersToKill, why); diff != "" || (len(got.ContainersToStart) == 1) != tt.wantRestart || got.UpdatePodResources != tt.wantRestart {
				t.Errorf("Starts %v, kills differ (-want +got):\n%s", got.ContainersToStart, diff)
			}
		})
	}
}

func updated(r plan.Resources) func(*plan.Input) {
	return func(in *plan.Input) { in.Actuated = map[string]plan.Resources{"a-id": r} }
}

// What gets less goes before what gets more, so that the sum is never above both.
func TestResizeOrder(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "a", "b", "c")
	for name, r := range map[string]corev1.ResourceRequirements{"a": limits("200m", ""), "b": limits("50m", ""), "c": limits("300m", "")} {
		spec(in, name).Resources = r
	}
	in.Definitions = plan.Define(in.Pod)
	for _, name := range []string{"a", "b", "c"} {
		status(in, name).Hash = in.Definitions.Containers[name]
		recorded(name, given(100, 0))(&in)
	}
	var names []string
	for _, u := range plan.Compute(in).CPUToUpdate {
		names = append(names, u.Name)
	}
	if diff := cmp.Diff([]string{"b", "a", "c"}, names); diff != "" {
		t.Errorf("Order differs (-want +got):\n%s", diff)
	}
}

func TestResourcesRoundTrip(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]plan.Resources{
		"none": {}, "all": {CPURequest: 1, CPULimit: 2, MemoryRequest: 3, MemoryLimit: 4}, "requests": {CPURequest: 1, MemoryRequest: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requirements := r.Requirements()
			if got := plan.ResourcesOf(&requirements); got != r {
				t.Errorf("Resources = %+v, want %+v", got, r)
			}
			if _, ok := requirements.Requests[corev1.ResourceCPU]; !ok {
				t.Error("The request is left out: it would be taken from the limit")
			}
		})
	}
}
