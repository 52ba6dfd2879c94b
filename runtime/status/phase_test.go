// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Compute has a status for every container; these functions do not rely on it.
func TestMissingAndEmptyStatuses(t *testing.T) {
	p := withInit(pod(corev1.Container{Name: "c"}),
		corev1.Container{Name: "i"}, corev1.Container{Name: "s", RestartPolicy: &always})
	run := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ok := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	yes := true
	i := corev1.ContainerStatus{Name: "i", State: ok, Ready: true}
	s := corev1.ContainerStatus{Name: "s", State: run, Started: &yes, Ready: true}
	c := corev1.ContainerStatus{Name: "c", State: run, Ready: true}
	tests := map[string]struct {
		statuses                          []corev1.ContainerStatus
		wantPhase                         corev1.PodPhase
		wantInitialized, wantAllContReady string
	}{
		"all there":         {statuses: []corev1.ContainerStatus{i, s, c}, wantPhase: corev1.PodRunning},
		"no main container": {statuses: []corev1.ContainerStatus{i, s}, wantPhase: corev1.PodPending, wantAllContReady: "containers with unknown status: [c]"},
		"no sidecar":        {statuses: []corev1.ContainerStatus{i, c}, wantPhase: corev1.PodPending, wantAllContReady: "containers with unknown status: [s]"},
		"no init container": {statuses: []corev1.ContainerStatus{s, c}, wantPhase: corev1.PodPending},
		"nothing": {
			wantPhase: corev1.PodPending, wantInitialized: "containers with unknown status: [i s]", wantAllContReady: "containers with unknown status: [s c]",
		},
		"a main container without a state": {statuses: []corev1.ContainerStatus{i, s, {Name: "c"}}, wantPhase: corev1.PodPending, wantAllContReady: "containers with unready status: [c]"},
		"a sidecar without a state": {
			statuses: []corev1.ContainerStatus{i, {Name: "s"}}, wantPhase: corev1.PodPending,
			wantInitialized: "containers with incomplete status: [s]", wantAllContReady: "containers with unknown status: [c], containers with unready status: [s]",
		},
		"only an init container that succeeded": {
			statuses: []corev1.ContainerStatus{i, {Name: "s", State: ok}}, wantPhase: corev1.PodPending,
			wantInitialized: "containers with incomplete status: [s]", wantAllContReady: "containers with unknown status: [c], containers with unready status: [s]",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := phase(p, tc.statuses, phaseFacts{})
			if got != tc.wantPhase {
				t.Errorf("phase = %s, want %s", got, tc.wantPhase)
			}
			messages := []string{
				initializedCondition(&p.Spec, tc.statuses, got, nil).Message,
				containersReadyCondition(&p.Spec, tc.statuses, got).Message,
			}
			if diff := cmp.Diff([]string{tc.wantInitialized, tc.wantAllContReady}, messages); diff != "" {
				t.Errorf("Messages of Initialized and ContainersReady (-want +got):\n%s", diff)
			}
		})
	}
	if got := phase(pod(), nil, phaseFacts{terminal: true}); got != corev1.PodPending {
		t.Errorf("phase without containers = %s, want Pending", got)
	}
}

// All containers are restarted: the pod starts over, and stays initialized.
func TestInitializedStays(t *testing.T) {
	p := withInit(pod(corev1.Container{Name: "c"}), corev1.Container{Name: "i"})
	tests := map[string]struct {
		previous corev1.ConditionStatus
		want     corev1.PodCondition
	}{
		"initialized before": {
			previous: corev1.ConditionTrue,
			want:     corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		},
		"not yet": {
			previous: corev1.ConditionFalse,
			want: corev1.PodCondition{
				Type: corev1.PodInitialized, Status: corev1.ConditionFalse,
				Reason: "ContainersNotInitialized", Message: "containers with incomplete status: [i]",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			st := Compute(Input{Pod: p, Now: t0, Previous: &corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: tc.previous}},
			}})
			got := conditionByType(st.Conditions, corev1.PodInitialized)
			got.ObservedGeneration, got.LastTransitionTime = 0, tc.want.LastTransitionTime
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("Initialized (-want +got):\n%s", diff)
			}
		})
	}
}
