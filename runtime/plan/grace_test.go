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

// The seconds are replayed from the kubelet's table; this is about where they
// come from.
func TestContainerGraceSource(t *testing.T) {
	t.Parallel()
	probed := &corev1.Container{
		LivenessProbe: &corev1.Probe{TerminationGracePeriodSeconds: new(int64(7))},
		StartupProbe:  &corev1.Probe{TerminationGracePeriodSeconds: new(int64(90))},
	}
	tests := map[string]struct {
		deletion, pod *int64
		container     *corev1.Container
		trigger       v1alpha1.KillTrigger
		want          plan.Grace
	}{
		"deletion before all": {
			deletion:  new(int64(0)),
			pod:       new(int64(30)),
			container: probed,
			trigger:   v1alpha1.TriggerLivenessProbe,
			want:      plan.Grace{Seconds: 0, Source: v1alpha1.GraceSourceDeletion},
		},
		"liveness probe": {
			pod:       new(int64(30)),
			container: probed,
			trigger:   v1alpha1.TriggerLivenessProbe,
			want:      plan.Grace{Seconds: 7, Source: v1alpha1.GraceSourceProbe},
		},
		"startup probe, longer than the pod's": {
			pod:       new(int64(30)),
			container: probed,
			trigger:   v1alpha1.TriggerStartupProbe,
			want:      plan.Grace{Seconds: 90, Source: v1alpha1.GraceSourceProbe},
		},
		"a probe's counts only where the pod has one": {
			container: probed,
			trigger:   v1alpha1.TriggerStartupProbe,
			want:      plan.Grace{Seconds: 2, Source: v1alpha1.GraceSourceMinimum},
		},
		"a kill for another reason": {
			pod:       new(int64(30)),
			container: probed,
			trigger:   v1alpha1.TriggerDefinitionChanged,
			want:      plan.Grace{Seconds: 30, Source: v1alpha1.GraceSourcePod},
		},
		"no container": {
			pod:     new(int64(0)),
			trigger: v1alpha1.TriggerLivenessProbe,
			want:    plan.Grace{Seconds: 0, Source: v1alpha1.GraceSourcePod},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(corev1.RestartPolicyAlways)
			pod.DeletionGracePeriodSeconds = tt.deletion
			pod.Spec.TerminationGracePeriodSeconds = tt.pod
			if diff := cmp.Diff(tt.want, plan.ContainerGrace(pod, tt.container, tt.trigger)); diff != "" {
				t.Errorf("Grace differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStopTimeout(t *testing.T) {
	t.Parallel()
	for left, want := range map[int64]int64{-5: 2, 0: 2, 1: 2, 2: 2, 3: 3, 30: 30} {
		if got := plan.StopTimeout(left); got != want {
			t.Errorf("StopTimeout(%d) = %d, want %d", left, got, want)
		}
	}
}
