// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A workload that is never restarted does not end while a container is to run again that was
// ended on request; the container says why it waits.
func TestOwedDoesNotEnd(t *testing.T) {
	t.Parallel()
	p := pod(corev1.Container{Name: "c"})
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	in := Input{
		Pod: p, Now: t0, RuntimeName: "r", Owed: plan.Owed{"c": "1"}, Waiting: map[string]Reason{"c": {Reason: "ErrImagePull"}},
		Observed: &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: "1", Name: "c", State: plan.ContainerExited, StartedAt: t0, ExitCode: 143}}},
	}
	st := Compute(in)
	if waits := st.ContainerStatuses[0].State.Waiting; st.Phase != corev1.PodRunning || waits == nil || waits.Reason != "ErrImagePull" {
		t.Errorf("phase %s, %+v", st.Phase, st.ContainerStatuses[0].State)
	}
	in.Waiting = nil
	if st = Compute(in); st.Phase != corev1.PodRunning || st.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("phase %s, %+v", st.Phase, st.ContainerStatuses[0].State)
	}
	in.Previous, in.Observed = &st, nil // the runtime does not know the instance any more
	if st := Compute(in); st.Phase != corev1.PodRunning {
		t.Errorf("phase %s", st.Phase)
	}
	in.Owed = nil
	if st := Compute(in); st.Phase != corev1.PodFailed {
		t.Errorf("phase %s", st.Phase)
	}
}

// An init container that is to run again does not fail the workload.
func TestOwedInitContainerDoesNotFail(t *testing.T) {
	t.Parallel()
	p := withInit(pod(corev1.Container{Name: "c"}), corev1.Container{Name: "i"})
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	in := Input{
		Pod: p, Now: t0, RuntimeName: "r", Owed: plan.Owed{"i": "1"},
		Observed: &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: "1", Name: "i", State: plan.ContainerExited, StartedAt: t0, ExitCode: 143}}},
	}
	if st := Compute(in); st.Phase != corev1.PodPending {
		t.Errorf("phase %s", st.Phase)
	}
	in.Owed = nil
	if st := Compute(in); st.Phase != corev1.PodFailed {
		t.Errorf("phase %s", st.Phase)
	}
}

// A sidecar that is kept stopped and did not run in this sandbox holds up neither the phase nor
// the condition Initialized; the workload is not ready.
func TestHeldSidecar(t *testing.T) {
	t.Parallel()
	p := withInit(pod(corev1.Container{Name: "c"}), corev1.Container{Name: "s", RestartPolicy: &always})
	in := Input{
		Pod: p, Now: t0, RuntimeName: "r", Held: map[string]Reason{"s": {Reason: v1alpha1.ReasonStopRequested}},
		Observed: &plan.PodStatus{},
	}
	if st := Compute(in); !isTrue(st.Conditions, corev1.PodInitialized) {
		t.Errorf("%+v", st.Conditions)
	}
	in.Observed.Containers = []plan.ContainerStatus{{ID: "1", Name: "c", State: plan.ContainerRunning, StartedAt: t0}}
	st := Compute(in)
	if waits := st.InitContainerStatuses[0].State.Waiting; st.Phase != corev1.PodRunning || waits == nil || waits.Reason != v1alpha1.ReasonStopRequested {
		t.Errorf("phase %s, %+v", st.Phase, st.InitContainerStatuses[0].State)
	}
	if isTrue(st.Conditions, corev1.PodReady) {
		t.Error("It is ready")
	}
}
