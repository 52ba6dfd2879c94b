// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Under Never an init container that failed ends the pod, but not one that ended with its
// sandbox: it runs again in the next one. Without the difference both end it.
func TestInitContainerThatEndedWithItsSandbox(t *testing.T) {
	failed := plan.ContainerStatus{ID: "i-0", Name: "i", SandboxID: "sandbox", State: plan.ContainerExited, ExitCode: 255}
	earlier := failed
	earlier.SandboxID = "earlier"
	created := plan.ContainerStatus{ID: "i-1", Name: "i", SandboxID: "sandbox", State: plan.ContainerCreated}
	notReady := func(o *plan.PodStatus) *plan.PodStatus {
		o.Sandboxes[0].State = plan.SandboxNotReady
		return o
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, ContainerID: "fake://i-0"}}
	tests := map[string]struct {
		observed *plan.PodStatus
		terminal bool
		want     corev1.PodPhase
	}{
		"it failed in this sandbox":                  {observed(failed), false, corev1.PodFailed},
		"its sandbox is not ready":                   {notReady(observed(failed)), false, corev1.PodPending},
		"there is another sandbox":                   {observed(earlier), false, corev1.PodPending},
		"there is another sandbox, and it is gone":   {observed(), false, corev1.PodPending},
		"there is another one that was only created": {observed(created, earlier), false, corev1.PodPending},
		"all is gone":                                {&plan.PodStatus{}, false, corev1.PodPending},
		"nothing is started any more":                {notReady(observed(failed)), true, corev1.PodFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := withInit(pod(corev1.Container{Name: "c"}), corev1.Container{Name: "i"})
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			in := Input{
				Pod: p, Now: t0, Observed: tt.observed, Terminal: tt.terminal, Differences: plan.AllDifferences(),
				Previous: &corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "i", State: ended}}},
			}
			if got := Compute(in).Phase; got != tt.want {
				t.Errorf("phase %s, want %s", got, tt.want)
			}
			in.Differences = plan.Differences{}
			if got := Compute(in).Phase; got != corev1.PodFailed {
				t.Errorf("without the difference: phase %s, want Failed", got)
			}
		})
	}
}
