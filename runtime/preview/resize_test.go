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
					Grace: &Grace{Seconds: 30, Source: v1alpha1.GraceSourcePod},
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
				return template.Pod(nw)
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
