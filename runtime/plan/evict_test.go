// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// stored returns a pod with emptyDirs and containers of these limits; "" is none.
func stored(volumes, containers map[string]string) *corev1.Pod {
	pod := &corev1.Pod{}
	for _, name := range []string{"a", "b"} {
		if text, ok := volumes[name]; ok {
			source := &corev1.EmptyDirVolumeSource{}
			if text != "" {
				source.SizeLimit = new(resource.MustParse(text))
			}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}})
		}
		if text, ok := containers[name]; ok {
			c := corev1.Container{Name: name}
			if text != "" {
				c.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(text)}
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// What is over which limit, in the kubelet's order and words.
func TestDecideEviction(t *testing.T) {
	t.Parallel()
	type names = map[string]string
	type bytes = map[string]int64
	const kib = 1024
	volume := `Usage of EmptyDir volume "b" exceeds the limit "1Ki". `
	pod := "Pod ephemeral local storage usage exceeds the total limit of containers 3Ki. "
	container := `Container b exceeded its local ephemeral storage limit "1Ki". `
	sidecar := `Container b exceeded its local ephemeral storage limit "2Ki". `
	main := `Container a exceeded its local ephemeral storage limit "1Ki". `
	critical := stored(names{"b": "1Ki"}, nil)
	critical.Spec.PriorityClassName = "system-node-critical"
	static := stored(names{"b": "1Ki"}, nil)
	static.UID = "static-1"
	important := stored(names{"b": "1Ki"}, nil)
	important.Spec.Priority = new(int32(2_000_000_000))
	sidecars := stored(nil, names{"a": "1Ki"})
	sidecars.Spec.InitContainers = stored(nil, names{"b": "2Ki"}).Spec.Containers
	sidecars.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	inits := sidecars.DeepCopy()
	inits.Spec.Containers[0].Resources.Limits[corev1.ResourceEphemeralStorage] = resource.MustParse("4Ki")
	inits.Spec.InitContainers[0].RestartPolicy = nil
	inMemory := func(limit string) *corev1.Pod {
		pod := stored(names{"b": limit}, nil)
		pod.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
		return pod
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		used plan.DiskUsage
		want string
	}{
		"a full tmpfs ends with a page":              {inMemory("100M"), plan.DiskUsage{Volumes: bytes{"b": 100_003_840}}, ""},
		"a tmpfs with more than a page":              {inMemory("1Ki"), plan.DiskUsage{Volumes: bytes{"b": 65 * kib}}, volume},
		"no limit":                                   {stored(names{"b": ""}, names{"b": ""}), plan.DiskUsage{Volumes: bytes{"b": 9 * kib}, Pod: 9 * kib, Containers: bytes{"b": 9 * kib}}, ""},
		"a volume at its limit":                      {stored(names{"b": "1Ki"}, nil), plan.DiskUsage{Volumes: bytes{"b": kib}}, ""},
		"a volume above it":                          {stored(names{"a": "1Ki", "b": "1Ki"}, nil), plan.DiskUsage{Volumes: bytes{"a": 1, "b": kib + 1}}, volume},
		"a volume with limit 0":                      {stored(names{"b": "0"}, nil), plan.DiskUsage{Volumes: bytes{"b": kib}}, ""},
		"a volume that was not measured":             {stored(names{"b": "1Ki"}, nil), plan.DiskUsage{}, ""},
		"a static pod":                               {static, plan.DiskUsage{Volumes: bytes{"b": 9 * kib}}, ""},
		"a critical pod":                             {critical, plan.DiskUsage{Volumes: bytes{"b": 9 * kib}}, ""},
		"a pod of that priority":                     {important, plan.DiskUsage{Volumes: bytes{"b": 9 * kib}}, ""},
		"the sum at the limit":                       {stored(nil, names{"a": "1Ki", "b": "2Ki"}), plan.DiskUsage{Pod: 3 * kib}, ""},
		"the sum above it":                           {stored(nil, names{"a": "1Ki", "b": "2Ki"}), plan.DiskUsage{Pod: 3*kib + 1}, pod},
		"a sidecar at its limit":                     {sidecars, plan.DiskUsage{Pod: 3 * kib, Containers: bytes{"b": 2 * kib}}, ""},
		"a sidecar above its limit":                  {sidecars, plan.DiskUsage{Pod: 3 * kib, Containers: bytes{"b": 3 * kib}}, sidecar},
		"an init container above its limit":          {inits, plan.DiskUsage{Pod: 3 * kib, Containers: bytes{"b": 3 * kib}}, sidecar},
		"a main container is named before a sidecar": {sidecars, plan.DiskUsage{Pod: 3 * kib, Containers: bytes{"a": 2 * kib, "b": 3 * kib}}, main},
		"a container above its limit":                {stored(nil, names{"a": "9Ki", "b": "1Ki"}), plan.DiskUsage{Pod: 2 * kib, Containers: bytes{"a": 1, "b": kib + 1}}, container},
		"the volume counts first":                    {stored(names{"b": "1Ki"}, names{"b": "1Ki"}), plan.DiskUsage{Volumes: bytes{"b": 2 * kib}, Pod: 9 * kib, Containers: bytes{"b": 2 * kib}}, volume},
		"then the pod":                               {stored(nil, names{"a": "2Ki", "b": "1Ki"}), plan.DiskUsage{Pod: 9 * kib, Containers: bytes{"b": 2 * kib}}, pod},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan.DecideEviction(plan.DiskLimitsOf(tt.pod), tt.used)
			var want *plan.Termination
			if tt.want != "" {
				want = &plan.Termination{
					Trigger: v1alpha1.TriggerEvicted, Override: new(int64(1)), Reason: "Evicted", Message: tt.want, RequestedBy: "shim (disk limits)",
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// While two templates may run, only what both limit is limited, to the larger of the two.
func TestLoosestDiskLimits(t *testing.T) {
	t.Parallel()
	type names = map[string]string
	limits := func(volumes, containers names) *plan.DiskLimits {
		return plan.DiskLimitsOf(stored(volumes, containers))
	}
	tests := map[string]struct {
		one, other, want *plan.DiskLimits
		tightens         bool
	}{
		"the same":       {limits(names{"a": "1Ki"}, nil), limits(names{"a": "1024"}, nil), limits(names{"a": "1Ki"}, nil), false},
		"lower":          {limits(names{"a": "1Ki"}, names{"b": "1Ki"}), limits(names{"a": "2Ki"}, names{"b": "2Ki"}), limits(names{"a": "2Ki"}, names{"b": "2Ki"}), true},
		"higher":         {limits(names{"a": "2Ki"}, names{"b": "2Ki"}), limits(names{"a": "1Ki"}, names{"b": "1Ki"}), limits(names{"a": "2Ki"}, names{"b": "2Ki"}), false},
		"one more":       {limits(names{"a": "1Ki", "b": "1Ki"}, nil), limits(names{"a": "1Ki"}, nil), limits(names{"a": "1Ki"}, nil), true},
		"one less":       {limits(names{"a": "1Ki"}, nil), limits(names{"a": "1Ki", "b": "1Ki"}, nil), limits(names{"a": "1Ki"}, nil), false},
		"the first ones": {limits(nil, names{"a": "1Ki"}), limits(nil, nil), limits(nil, nil), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.one.Loosest(tt.other)); diff != "" {
				t.Error(diff)
			}
			if got := tt.one.Tightens(tt.other); got != tt.tightens {
				t.Errorf("tightens: %t, want %t", got, tt.tightens)
			}
		})
	}
}
