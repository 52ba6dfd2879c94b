// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Changed resources are a step of their own, or a kill where the policy says so.
func TestResize(t *testing.T) {
	tests := map[string]struct {
		policy []corev1.ContainerResizePolicy
		want   []Step
	}{
		"in place": {want: []Step{{
			Action: ActionResize, Container: "c", Kind: KindContainer, ID: "assumed-c",
			Message: "CPU request from 100m to 250m, CPU limit from 100m to 250m, memory request from 64Mi to none, memory limit from 64Mi to none",
		}}},
		"by a restart": {
			policy: []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}},
			want: []Step{
				{
					Action: ActionKill, Container: "c", Kind: KindContainer, ID: "assumed-c", Trigger: v1alpha1.TriggerResizeRequired,
					Message: "Container c resize requires restart", Changed: []string{"resources"},
					Grace: &Grace{Seconds: 30, StopSeconds: 30, Source: v1alpha1.GraceSourcePod},
				},
				{Action: ActionStart, Container: "c", Kind: KindContainer, Message: "after its kill"},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := func(limits corev1.ResourceList) *corev1.Pod {
				nw := &v1alpha1.NodeWorkload{}
				nw.Name, nw.UID = "w-n1", "u"
				nw.Spec.Template.Spec.Containers = []corev1.Container{{
					Name: "c", Image: "i:1", ResizePolicy: tt.policy, Resources: corev1.ResourceRequirements{Limits: limits},
				}}
				return template.Pod(template.Of(nw))
			}
			before := pod(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")})
			after := pod(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")})
			got := Compute(Input{Pod: after, Before: before, Observed: Running(before), Source: SourceAssumed, Now: time.Unix(0, 0)})
			if diff := cmp.Diff(tt.want, got.Steps); diff != "" {
				t.Errorf("Steps differ (-want +got):\n%s", diff)
			}
		})
	}
}

// A container may have been resized since it was created: without a status that
// says so the runtime's report does.
func TestResizedBefore(t *testing.T) {
	const mi = 1 << 20
	list := func(milliCPU, memory int64) corev1.ResourceList {
		l := corev1.ResourceList{}
		if milliCPU > 0 {
			l[corev1.ResourceCPU] = *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)
		}
		if memory > 0 {
			l[corev1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
		}
		return l
	}
	tests := map[string]struct {
		recorded plan.Resources
		reported *corev1.ResourceRequirements
		desired  corev1.ResourceRequirements
		want     int
	}{
		"as it is now": {
			recorded: plan.Resources{CPURequest: 100, CPULimit: 100, MemoryRequest: 64 * mi, MemoryLimit: 64 * mi},
			reported: &corev1.ResourceRequirements{Requests: list(200, 0), Limits: list(200, 96*mi)},
			desired:  corev1.ResourceRequirements{Requests: list(200, 96*mi), Limits: list(200, 96*mi)},
		},
		"back to what it was": {
			recorded: plan.Resources{CPURequest: 100, CPULimit: 100},
			reported: &corev1.ResourceRequirements{Requests: list(200, 0), Limits: list(200, 0)},
			desired:  corev1.ResourceRequirements{Requests: list(100, 0), Limits: list(100, 0)},
			want:     1,
		},
		"limits that were taken away": {
			recorded: plan.Resources{CPURequest: 100, CPULimit: 100, MemoryRequest: mi, MemoryLimit: mi},
			reported: &corev1.ResourceRequirements{Requests: list(100, 0)},
			desired:  corev1.ResourceRequirements{Requests: list(100, 0)},
		},
		"less than a cgroup can have": {
			recorded: plan.Resources{CPURequest: 1, CPULimit: 3},
			reported: &corev1.ResourceRequirements{Requests: list(2, 0), Limits: list(10, 0)},
			desired:  corev1.ResourceRequirements{Requests: list(1, 0), Limits: list(3, 0)},
		},
		"another memory request": {
			recorded: plan.Resources{CPURequest: 100, MemoryRequest: mi, MemoryLimit: 9 * mi},
			reported: &corev1.ResourceRequirements{Requests: list(100, 0), Limits: list(0, 9*mi)},
			desired:  corev1.ResourceRequirements{Requests: list(100, 2*mi), Limits: list(0, 9*mi)},
			want:     1,
		},
		"not reported": {
			recorded: plan.Resources{CPURequest: 100},
			desired:  corev1.ResourceRequirements{Requests: list(100, 0)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			nw := &v1alpha1.NodeWorkload{}
			nw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1", Resources: tt.desired}}
			pod := template.Pod(template.Of(nw))
			observed := Running(pod)
			observed.Containers[0].Recorded.Resources, observed.Containers[0].Resources = &tt.recorded, tt.reported
			got := Compute(Input{Pod: pod, Observed: observed, Source: SourceRuntime, Now: time.Unix(0, 0)})
			if len(got.Steps) != tt.want {
				t.Errorf("Steps %+v, want %d", got.Steps, tt.want)
			}
		})
	}
}
