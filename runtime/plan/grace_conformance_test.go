// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

func TestConformanceGraceTable(t *testing.T) {
	t.Parallel()
	recordings.Each(t, "grace-table", func(t *testing.T, _ []byte, v *recordings.Grace) {
		trigger, known := vectors.TriggerOf(v.Reason)
		if !known {
			t.Fatalf("%s: unknown reason %q", v.ID, v.Reason)
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: v.Deletion},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: v.Pod},
		}
		c := &corev1.Container{StartupProbe: probeOf(v.Startup), LivenessProbe: probeOf(v.Liveness)}
		if got := plan.ContainerGrace(pod, c, trigger).Seconds; got != v.Seconds {
			t.Errorf("%s: ContainerGrace = %d s, want %d s", v.ID, got, v.Seconds)
		}
	})
}

func probeOf(p *recordings.ProbeGrace) *corev1.Probe {
	if p == nil {
		return nil
	}
	return &corev1.Probe{TerminationGracePeriodSeconds: p.Seconds}
}

func TestConformanceEffectiveGrace(t *testing.T) {
	t.Parallel()
	recordings.Each(t, "effective-grace", func(t *testing.T, _ []byte, v *recordings.EffectiveGrace) {
		seconds, shortened := plan.TerminationGrace(v.Current, v.Deletion, v.Override, v.Pod)
		if seconds != v.Seconds || shortened != v.Shortened {
			t.Errorf("%s: TerminationGrace = %d s, %v, want %d s, %v", v.ID, seconds, shortened, v.Seconds, v.Shortened)
		}
	})
}
