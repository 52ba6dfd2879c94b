// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

// graceVector is a line of grace-table.
type graceVector struct {
	ID            string      `json:"id"`
	Deletion      *int64      `json:"podDeletionGracePeriodSeconds"`
	Pod           *int64      `json:"podTerminationGracePeriodSeconds"`
	StartupProbe  *probeGrace `json:"startupProbe"`
	LivenessProbe *probeGrace `json:"livenessProbe"`
	Reason        string      `json:"reason"`
	Seconds       int64       `json:"seconds"`
}

type probeGrace struct {
	Seconds *int64 `json:"terminationGracePeriodSeconds"`
}

func (p *probeGrace) probe() *corev1.Probe {
	if p == nil {
		return nil
	}
	return &corev1.Probe{TerminationGracePeriodSeconds: p.Seconds}
}

func TestConformanceGraceTable(t *testing.T) {
	t.Parallel()
	eachVector(t, "grace-table.jsonl.gz", func(t *testing.T, _ []byte, v graceVector) {
		trigger, known := vectors.TriggerOf(v.Reason)
		if !known {
			t.Fatalf("%s: unknown reason %q", v.ID, v.Reason)
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: v.Deletion},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: v.Pod},
		}
		c := &corev1.Container{StartupProbe: v.StartupProbe.probe(), LivenessProbe: v.LivenessProbe.probe()}
		if got := plan.ContainerGrace(pod, c, trigger).Seconds; got != v.Seconds {
			t.Errorf("%s: ContainerGrace = %d s, want %d s", v.ID, got, v.Seconds)
		}
	})
}

// effectiveGraceVector is a line of effective-grace.
type effectiveGraceVector struct {
	ID        string `json:"id"`
	Current   int64  `json:"currentGracePeriod"`
	Override  *int64 `json:"overrideSeconds"`
	Deletion  *int64 `json:"podDeletionGracePeriodSeconds"`
	Pod       *int64 `json:"podTerminationGracePeriodSeconds"`
	Seconds   int64  `json:"seconds"`
	Shortened bool   `json:"shortened"`
}

func TestConformanceEffectiveGrace(t *testing.T) {
	t.Parallel()
	eachVector(t, "effective-grace.jsonl.gz", func(t *testing.T, _ []byte, v effectiveGraceVector) {
		seconds, shortened := plan.TerminationGrace(v.Current, v.Deletion, v.Override, v.Pod)
		if seconds != v.Seconds || shortened != v.Shortened {
			t.Errorf("%s: TerminationGrace = %d s, %v, want %d s, %v", v.ID, seconds, shortened, v.Seconds, v.Shortened)
		}
	})
}
