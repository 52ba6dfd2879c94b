// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestTerminationOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		running []string
		want    map[string][]string
	}{
		"mains first, then sidecars from the last": {
			running: []string{"b", "s3", "a", "s1", "s2"},
			want: map[string][]string{
				"s1": {"a", "b", "s2"},
				"s2": {"a", "b", "s3"},
				"s3": {"a", "b"},
			},
		},
		"only the next sidecar of the spec is waited for": {
			running: []string{"s1", "s3"},
			want:    map[string][]string{},
		},
		"plain init containers neither wait nor are waited for": {
			running: []string{"i1", "s1"},
			want:    map[string][]string{},
		},
		"no sidecar runs": {
			running: []string{"a", "b"},
			want:    map[string][]string{},
		},
		"what is not in the spec has no place": {
			running: []string{"other", "a", "s3"},
			want:    map[string][]string{"s3": {"a"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(corev1.RestartPolicyAlways, "s1", "i1", "s2", "s3", "a", "b")
			if diff := cmp.Diff(tt.want, plan.TerminationOrder(pod, tt.running)); diff != "" {
				t.Errorf("Order differs (-want +got):\n%s", diff)
			}
		})
	}
}

// The kills of a pod are listed as its template lists the containers; those that it
// does not name come last.
func TestPodKillsOrder(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "b"}, {Name: "a"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}},
	}}
	observed := &plan.PodStatus{}
	for _, name := range []string{"y", "e", "a", "x", "b", "i"} {
		observed.Containers = append(observed.Containers, plan.ContainerStatus{ID: name, Name: name, State: plan.ContainerRunning})
	}
	var names []string
	for _, k := range plan.PodKills(plan.KillRequest{Pod: pod, Observed: observed}, plan.AllDifferences()) {
		names = append(names, k.Name)
	}
	if got := strings.Join(names, " "); got != "i b a e x y" {
		t.Errorf("kills of %s", got)
	}
}
