// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// newPod has an init container, a sidecar, two main containers and an ephemeral one.
func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: "uid"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{
				{Name: "init"},
				{Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			},
			Containers:          []corev1.Container{{Name: "app"}, {Name: "second"}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
		},
	}
}

func TestFindContainers(t *testing.T) {
	pod := newPod()
	for name, wantPath := range map[string]string{
		"init":    "spec.initContainers{init}",
		"sidecar": "spec.initContainers{sidecar}",
		"app":     "spec.containers{app}",
		"second":  "spec.containers{second}",
		"debug":   "spec.ephemeralContainers{debug}",
	} {
		if c := Container(pod, name); c == nil || c.Name != name {
			t.Errorf("Container(%q) = %v", name, c)
		}
		if got := FieldPath(pod, name); got != wantPath {
			t.Errorf("FieldPath(%q) = %q, want %q", name, got, wantPath)
		}
	}
	if c := Container(pod, "removed"); c != nil {
		t.Errorf("Container of a name that the pod lacks = %v", c)
	}
	if got := FieldPath(pod, "removed"); got != "implicitly required container removed" {
		t.Errorf("FieldPath of a name that the pod lacks = %q", got)
	}
	Container(pod, "debug").Image = "changed"
	if pod.Spec.EphemeralContainers[0].Image != "changed" {
		t.Error("Container returned a copy")
	}
}

func TestInitAndMain(t *testing.T) {
	var all []string
	for c := range InitAndMain(newPod()) {
		all = append(all, c.Name)
		if IsSidecar(c) != (c.Name == "sidecar") {
			t.Errorf("IsSidecar(%s) = %t", c.Name, IsSidecar(c))
		}
	}
	if !slices.Equal(all, []string{"init", "sidecar", "app", "second"}) {
		t.Errorf("containers %q", all)
	}
}

func TestHasPrivileged(t *testing.T) {
	if HasPrivileged(newPod()) {
		t.Error("a pod without security contexts is privileged")
	}
	for name, of := range map[string]func(*corev1.PodSpec) *corev1.Container{
		"init": func(s *corev1.PodSpec) *corev1.Container { return &s.InitContainers[0] },
		"main": func(s *corev1.PodSpec) *corev1.Container { return &s.Containers[1] },
	} {
		for _, want := range []bool{true, false} {
			pod := newPod()
			of(&pod.Spec).SecurityContext = &corev1.SecurityContext{Privileged: &want}
			if got := HasPrivileged(pod); got != want {
				t.Errorf("%s container with privileged: %t: got %t", name, want, got)
			}
		}
	}
}

func TestFormat(t *testing.T) {
	if got := Format(newPod()); got != "pod_ns(uid)" {
		t.Errorf("Format = %q", got)
	}
}

func TestQOSClass(t *testing.T) {
	amounts := func(cpu, memory string) corev1.ResourceList {
		list := corev1.ResourceList{}
		if cpu != "" {
			list[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			list[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return list
	}
	of := func(requests, limits corev1.ResourceList) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	both := func(cpu, memory string) corev1.ResourceRequirements {
		return of(amounts(cpu, memory), amounts(cpu, memory))
	}
	full, none := both("1", "1Gi"), corev1.ResourceRequirements{}
	type all []corev1.ResourceRequirements
	tests := map[string]struct {
		main, init all
		pod        *corev1.ResourceRequirements
		want       corev1.PodQOSClass
	}{
		"nothing":                      {main: all{none}, want: corev1.PodQOSBestEffort},
		"zero is nothing":              {main: all{both("0", "0")}, init: all{both("0", "0")}, want: corev1.PodQOSBestEffort},
		"other resources do not count": {main: all{of(corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}, nil)}, want: corev1.PodQOSBestEffort},
		"equal":                        {main: all{full}, want: corev1.PodQOSGuaranteed},
		"equal in all, also init":      {main: all{full, full}, init: all{full}, want: corev1.PodQOSGuaranteed},
		"equal in sum":                 {main: all{of(amounts("1", "1Gi"), amounts("2", "1Gi")), of(amounts("2", "1Gi"), amounts("1", "1Gi"))}, want: corev1.PodQOSGuaranteed},
		"limits without requests":      {main: all{of(nil, amounts("1", "1Gi"))}, want: corev1.PodQOSBurstable},
		"a request of zero":            {main: all{of(amounts("0", "1Gi"), amounts("1", "1Gi"))}, want: corev1.PodQOSBurstable},
		"requests only":                {main: all{of(amounts("1", "1Gi"), nil)}, want: corev1.PodQOSBurstable},
		"requests below limits":        {main: all{of(amounts("1", "1Mi"), amounts("1", "1Gi"))}, want: corev1.PodQOSBurstable},
		"cpu only":                     {main: all{both("1", "")}, want: corev1.PodQOSBurstable},
		"memory only":                  {main: all{both("", "1Gi")}, init: all{both("", "1Gi")}, want: corev1.PodQOSBurstable},
		"a main container without":     {main: all{full, none}, want: corev1.PodQOSBurstable},
		"an init container without":    {main: all{full}, init: all{none}, want: corev1.PodQOSBurstable},
		"an init container alone":      {main: all{none}, init: all{full}, want: corev1.PodQOSBurstable},
		"the pod's own":                {main: all{none}, pod: &full, want: corev1.PodQOSGuaranteed},
		"the pod's own without limits": {main: all{full}, pod: ptr.To(of(amounts("1", "1Gi"), nil)), want: corev1.PodQOSBurstable},
		"the pod's own with one limit": {main: all{full}, pod: ptr.To(of(amounts("1", ""), amounts("2", "1Gi"))), want: corev1.PodQOSBurstable},
		"the pod's own, set but empty": {main: all{full}, pod: &none, want: corev1.PodQOSBestEffort},
		"the pod's own, limits of cpu": {main: all{full}, pod: ptr.To(both("1", "")), want: corev1.PodQOSBurstable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Resources: tc.pod}}
			for _, r := range tc.main {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: r})
			}
			for _, r := range tc.init {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Resources: r})
			}
			if got := QOSClass(pod); got != tc.want {
				t.Errorf("QOSClass = %s, want %s", got, tc.want)
			}
		})
	}
}
