// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func fieldRef(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func TestFieldRefs(t *testing.T) {
	tests := map[string]struct {
		path    string
		want    string
		wantErr string
	}{
		"name":            {path: "metadata.name", want: "web"},
		"labels":          {path: "metadata.labels", want: "a.b/c=\"d\"\napp=\"web\""},
		"a label":         {path: "metadata.labels['a.b/c']", want: "d"},
		"node":            {path: "spec.nodeName", want: "node-1"},
		"service account": {path: "spec.serviceAccountName", want: "sa"},
		"host IP":         {path: "status.hostIP", want: "10.0.0.1"},
		"host IPs":        {path: "status.hostIPs", want: "10.0.0.1,fd00::1"},
		"pod IP":          {path: "status.podIP", want: "10.1.0.2"},
		"pod IPs":         {path: "status.podIPs", want: "10.1.0.2,fd00::2"},
		"unknown":         {path: "spec.hostname", wantErr: "unsupported fieldPath: spec.hostname"},
	}
	m := newManager(t, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "X", ValueFrom: fieldRef(tt.path)}}}
			env, _, err := m.environment(testPod(nil), c, []string{"10.1.0.2", "fd00::2"})
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) || !strings.Contains(err.Error(), `"X"`) {
					t.Fatalf("error %v, want %q about X", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]EnvVar{{"X", tt.want}}, env); diff != "" {
				t.Errorf("env (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvironmentOrder(t *testing.T) {
	c := &corev1.Container{Name: "c", Env: []corev1.EnvVar{
		{Name: "LATER", Value: "$(B)"},
		{Name: "A", Value: "1"},
		{Name: "B", Value: "$(A)2"},
		{Name: "POD", ValueFrom: fieldRef("metadata.name")},
		{Name: "BOTH", Value: "$(POD)-$(B)"},
		{Name: "A", Value: "again"},
		{Name: "EMPTY"},
	}}
	env, _, err := newManager(t, nil).environment(testPod(nil), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []EnvVar{{"LATER", "$(B)"}, {"A", "again"}, {"B", "12"}, {"POD", "web"}, {"BOTH", "web-12"}, {"EMPTY", ""}}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}

func TestPodIPOnHostNetworkIsTheNodes(t *testing.T) {
	pod := testPod(func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	got, err := newManager(t, nil).fieldValue(pod, &corev1.ObjectFieldSelector{FieldPath: "status.podIPs"}, nil)
	if err != nil || got != "10.0.0.1,fd00::1" {
		t.Errorf("pod IPs = %q, %v, want the node's", got, err)
	}
}

func TestUnsupportedSources(t *testing.T) {
	sources := map[string]*corev1.EnvVarSource{
		"secret":     {SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}},
		"config map": {ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "k"}},
		"none":       {},
		"version":    {FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.name"}},
	}
	m := newManager(t, nil)
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			c := &corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "X", ValueFrom: source}}}
			if _, _, err := m.environment(testPod(nil), c, nil); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestResourceFieldRefs(t *testing.T) {
	tests := map[string]struct {
		resource, divisor, container string
		want, wantErr                string
	}{
		"CPU limit in cores, rounded up": {resource: "limits.cpu", want: "2"},
		"a limit from the node":          {resource: "limits.ephemeral-storage", divisor: "1Gi", want: "100"},
		"another container":              {resource: "limits.cpu", container: "other", want: "4"},
		"no such container":              {resource: "limits.cpu", container: "x", wantErr: "container x not found"},
		"no such resource":               {resource: "limits.dogs", wantErr: "unsupported container resource : limits.dogs"},
	}
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Limits: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
				"hugepages-2Mi": resource.MustParse("4Mi"),
			},
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
		}
		p.Spec.InitContainers = []corev1.Container{{Name: "other"}}
	})
	m := newManager(t, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ref := &corev1.ResourceFieldSelector{Resource: tt.resource, ContainerName: tt.container}
			if tt.divisor != "" {
				ref.Divisor = resource.MustParse(tt.divisor)
			}
			got, err := m.resourceValue(pod, &pod.Spec.Containers[0], ref)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("value %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestLimitFromThePod(t *testing.T) {
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	})
	got, err := newManager(t, nil).resourceValue(pod, &pod.Spec.Containers[0], &corev1.ResourceFieldSelector{Resource: "limits.memory"})
	if err != nil || got != "1073741824" {
		t.Errorf("limit %q, %v, want the pod's", got, err)
	}
}

func TestNodeCapacityIsFoundOut(t *testing.T) {
	m := newManager(t, func(c *Config) { c.Capacity = nil })
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q := m.capacity[name]; q.Sign() <= 0 {
			t.Errorf("capacity of %s is %s", name, q.String())
		}
	}
}
