// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func amounts(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

func TestComputeResources(t *testing.T) {
	spec := corev1.ResourceRequirements{Requests: amounts("100m", "10Mi"), Limits: amounts("200m", "20Mi")}
	reported := &corev1.ResourceRequirements{Requests: amounts("150m", "11Mi"), Limits: amounts("250m", "21Mi")}
	tests := map[string]struct {
		spec     corev1.ResourceRequirements
		actual   *corev1.ResourceRequirements
		given    *plan.Resources
		previous *corev1.ContainerStatus
		exited   bool
		want     *corev1.ResourceRequirements
	}{
		"of the spec":                  {spec: spec, want: &spec},
		"of the runtime":               {spec: spec, actual: reported, want: reported},
		"of the spec once it has left": {spec: spec, actual: reported, exited: true, want: &spec},
		"unset stays unset":            {actual: reported, want: &corev1.ResourceRequirements{}},
		"below the minimum the spec's": {
			spec:   corev1.ResourceRequirements{Requests: amounts("1m", ""), Limits: amounts("5m", "")},
			actual: &corev1.ResourceRequirements{Requests: amounts("2m", ""), Limits: amounts("10m", "")},
			want:   &corev1.ResourceRequirements{Requests: amounts("1m", ""), Limits: amounts("5m", "")},
		},
		"as reported before": {
			spec: spec,
			previous: &corev1.ContainerStatus{
				Name: "c", ContainerID: "containerd://c-0", Resources: reported,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			},
			want: reported,
		},
		"as given last, where the runtime does not tell": {
			spec: spec, actual: &corev1.ResourceRequirements{Requests: amounts("150m", ""), Limits: amounts("", "21Mi")},
			given: &plan.Resources{CPULimit: 230, MemoryRequest: 15 << 20},
			previous: &corev1.ContainerStatus{
				Name: "c", ContainerID: "containerd://c-0", Resources: reported,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			},
			want: &corev1.ResourceRequirements{Requests: amounts("150m", "15Mi"), Limits: amounts("230m", "21Mi")},
		},
		"a limit that was taken away": {
			spec:  corev1.ResourceRequirements{Requests: amounts("100m", ""), Limits: amounts("200m", "")},
			given: &plan.Resources{CPURequest: 100, CPULimit: 200},
			previous: &corev1.ContainerStatus{
				Name: "c", ContainerID: "containerd://c-0", Resources: reported,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			},
			want: &corev1.ResourceRequirements{Requests: amounts("100m", ""), Limits: amounts("200m", "")},
		},
		"not as of an earlier instance": {
			spec: spec,
			previous: &corev1.ContainerStatus{
				Name: "c", ContainerID: "containerd://other", Resources: reported,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			},
			want: &spec,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cs := running("c")
			if tc.exited {
				cs = exited("c", 0)
			}
			cs.Resources, cs.Recorded.Resources = tc.actual, tc.given
			previous := &corev1.PodStatus{}
			if tc.previous != nil {
				previous.ContainerStatuses = []corev1.ContainerStatus{*tc.previous}
			}
			st := Compute(Input{
				Pod: pod(corev1.Container{Name: "c", Resources: tc.spec}), Observed: observed(cs), Previous: previous,
				RuntimeName: "containerd", Now: t0,
			})
			if diff := cmp.Diff(tc.want, st.ContainerStatuses[0].Resources); diff != "" {
				t.Errorf("Resources (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.spec.Requests, st.ContainerStatuses[0].AllocatedResources); diff != "" {
				t.Errorf("Allocated resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComputeVolumeMounts(t *testing.T) {
	possible, enabled, disabled := corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyDisabled
	none, shared := corev1.MountPropagationNone, corev1.MountPropagationHostToContainer
	mounts := []corev1.VolumeMount{
		{Name: "rw", MountPath: "/rw"},
		{Name: "ro", MountPath: "/ro", ReadOnly: true},
		{Name: "possible", MountPath: "/possible", ReadOnly: true, RecursiveReadOnly: &possible, MountPropagation: &none},
		{Name: "shared", MountPath: "/shared", ReadOnly: true, RecursiveReadOnly: &possible, MountPropagation: &shared},
		{Name: "disabled", MountPath: "/disabled", ReadOnly: true, RecursiveReadOnly: &disabled},
	}
	want := func(mode corev1.RecursiveReadOnlyMode) []corev1.VolumeMountStatus {
		return []corev1.VolumeMountStatus{
			{Name: "rw", MountPath: "/rw"},
			{Name: "ro", MountPath: "/ro", ReadOnly: true, RecursiveReadOnly: &disabled},
			{Name: "possible", MountPath: "/possible", ReadOnly: true, RecursiveReadOnly: &mode},
			{Name: "shared", MountPath: "/shared", ReadOnly: true, RecursiveReadOnly: &disabled},
			{Name: "disabled", MountPath: "/disabled", ReadOnly: true, RecursiveReadOnly: &disabled},
		}
	}
	earlier := []corev1.VolumeMountStatus{{Name: "earlier", MountPath: "/earlier"}}
	tests := map[string]struct {
		observed  *plan.PodStatus
		previous  []corev1.ContainerStatus
		recursive bool
		want      []corev1.VolumeMountStatus
	}{
		"before it was created":          {recursive: true, want: want(enabled)},
		"running":                        {observed: observed(running("c")), recursive: true, want: want(enabled)},
		"a runtime that cannot":          {observed: observed(running("c")), want: want(disabled)},
		"of the instance that runs":      {observed: observed(running("c")), previous: []corev1.ContainerStatus{{Name: "c", ContainerID: "containerd://c-0", VolumeMounts: earlier}}, want: earlier},
		"not those of an older instance": {observed: observed(running("c")), previous: []corev1.ContainerStatus{{Name: "c", ContainerID: "containerd://other", VolumeMounts: earlier}}, want: want(disabled)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			st := Compute(Input{
				Pod: pod(corev1.Container{Name: "c", VolumeMounts: mounts}), Observed: tc.observed, RuntimeName: "containerd",
				Previous: &corev1.PodStatus{ContainerStatuses: tc.previous}, RecursiveReadOnlyMounts: tc.recursive, Now: t0,
			})
			if diff := cmp.Diff(tc.want, st.ContainerStatuses[0].VolumeMounts); diff != "" {
				t.Errorf("Volume mounts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComputeUserAndStopSignal(t *testing.T) {
	cs := running("c")
	cs.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1, GID: 2, SupplementalGroups: []int64{3}}}
	cs.StopSignal = "SIGUSR1"
	st := Compute(Input{Pod: pod(corev1.Container{Name: "c"}), Observed: observed(cs), Now: t0})
	got := st.ContainerStatuses[0]
	if diff := cmp.Diff(cs.User, got.User); diff != "" {
		t.Errorf("User (-want +got):\n%s", diff)
	}
	if got.StopSignal == nil || *got.StopSignal != corev1.SIGUSR1 {
		t.Errorf("stopSignal = %v, want SIGUSR1", got.StopSignal)
	}
}
