// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A workload at rest is planned on every wake-up: that must cost next to
// nothing.
func BenchmarkComputeSteady(b *testing.B) {
	in := steadyInput()
	b.ReportAllocs()
	for b.Loop() {
		if plan.Compute(in).KillPod {
			b.Fatal("A steady pod is killed")
		}
	}
}

func BenchmarkDefine(b *testing.B) {
	pod := steadyInput().Pod
	b.ReportAllocs()
	for b.Loop() {
		if plan.Define(pod) == nil {
			b.Fatal("No definitions")
		}
	}
}

func TestComputeSteadyAllocations(t *testing.T) {
	in := steadyInput()
	if got := testing.AllocsPerRun(100, func() { plan.Compute(in) }); got > 0 {
		t.Errorf("Compute of a steady pod allocates %v times, want none", got)
	}
}

// steadyInput is a pod of three containers with probes that all succeed.
func steadyInput() plan.Input {
	in := runningInput(corev1.RestartPolicyAlways, "a", "b", "c")
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		c.LivenessProbe, c.StartupProbe = &corev1.Probe{}, &corev1.Probe{}
		in.Probes[c.Name+"-id"] = plan.ProbeResults{
			Liveness: plan.ProbeSuccess, Readiness: plan.ProbeSuccess, Startup: plan.ProbeSuccess,
		}
	}
	return in
}
