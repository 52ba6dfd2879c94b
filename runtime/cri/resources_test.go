// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// list makes resources of cpu and memory; "" leaves one out.
func list(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if cpu != "" {
		out[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func TestContainerResources(t *testing.T) {
	tests := map[string]struct {
		node             nodeResources
		requests, limits corev1.ResourceList
		ofPod            *corev1.ResourceRequirements
		class            string
		want             *runtimeapi.LinuxContainerResources
	}{
		"nothing": {want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000}},
		"a tiny limit": {
			limits: list("1m", ""),
			want:   &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 1000, OomScoreAdj: 999},
		},
		"a huge request": {
			requests: list("1000", ""),
			want:     &runtimeapi.LinuxContainerResources{CpuShares: 262144, CpuPeriod: 100000, OomScoreAdj: 999},
		},
		"a request of zero is not the limit": {
			requests: list("0", ""), limits: list("1", ""),
			want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 100000, OomScoreAdj: 999},
		},
		"guaranteed": {
			requests: list("1", "1Gi"), limits: list("1", "1Gi"),
			want: &runtimeapi.LinuxContainerResources{
				CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 1 << 30, OomScoreAdj: -997,
			},
		},
		"node-critical, best effort": {
			class: "system-node-critical",
			want:  &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: -997},
		},
		"node-critical, burstable": {
			requests: list("", "1Gi"), class: "system-node-critical",
			want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: -997},
		},
		"cluster-critical counts as any other": {
			class: "system-cluster-critical",
			want:  &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000},
		},
		"the whole node requested": {
			requests: list("", "16Gi"),
			want:     &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 3},
		},
		"cgroup v2": {
			node: nodeResources{unified: true, swapLimits: true, hugePages: []string{"2MB", "1GB"}}, limits: list("", "1Gi"),
			want: &runtimeapi.LinuxContainerResources{
				CpuShares: 2, CpuPeriod: 100000, MemoryLimitInBytes: 1 << 30, OomScoreAdj: 999,
				Unified:        map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"},
				HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB"}, {PageSize: "1GB"}},
			},
		},
		"huge pages": {
			node: nodeResources{hugePages: []string{"2MB", "1GB"}}, limits: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("6Mi"), "hugepages-64Ki": resource.MustParse("64Ki")},
			want: &runtimeapi.LinuxContainerResources{
				CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000,
				HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: 6 << 20}, {PageSize: "1GB"}},
			},
		},
		"limits of the pod hold where the container has none": {
			limits: list("500m", ""), ofPod: &corev1.ResourceRequirements{Limits: list("2", "1Gi"), Requests: list("1", "")},
			want: &runtimeapi.LinuxContainerResources{CpuShares: 512, CpuPeriod: 100000, CpuQuota: 50000, MemoryLimitInBytes: 1 << 30, OomScoreAdj: 999},
		},
		"what the pod requests beyond its containers counts against an OOM kill": {
			requests: list("", "1Gi"), ofPod: &corev1.ResourceRequirements{Requests: list("", "8Gi")},
			want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 500},
		},
		"cgroup v1 with swap": {
			node: nodeResources{swapLimits: true}, limits: list("", "1Gi"),
			want: &runtimeapi.LinuxContainerResources{
				CpuShares: 2, CpuPeriod: 100000, MemoryLimitInBytes: 1 << 30, MemorySwapLimitInBytes: 1 << 30, OomScoreAdj: 999,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := newPod()
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: tc.requests, Limits: tc.limits}
			pod.Spec.Resources, pod.Spec.PriorityClassName = tc.ofPod, tc.class
			tc.node.memory = 16 << 30
			got := tc.node.containerResources(pod, &pod.Spec.Containers[0])
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A sidecar lives as long as the container with the least memory that it serves.
func TestSidecarOOMScore(t *testing.T) {
	pod := newPod()
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		{Name: "init"},
		{Name: "once", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever)},
	}
	pod.Spec.Containers[0].Resources.Requests = list("", "8Gi")
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "second", Resources: corev1.ResourceRequirements{Requests: list("", "4Gi")},
	})
	node := nodeResources{memory: 16 << 30}
	for name, want := range map[string]int64{"side": 750, "init": 999, "once": 999, "app": 500, "second": 750} {
		if got := node.oomScoreAdjust(pod, podspec.Container(pod, name)); got != want {
			t.Errorf("%s: want %d, got %d", name, want, got)
		}
	}
}

func TestReportedResources(t *testing.T) {
	if got := reportedResources(nil); got != nil {
		t.Errorf("a runtime that tells nothing: got %v", got)
	}
	got := reportedResources(&runtimeapi.LinuxContainerResources{CpuShares: 102, CpuPeriod: 100000, CpuQuota: -1, MemoryLimitInBytes: 1 << 30})
	want := &corev1.ResourceRequirements{Requests: list("100m", ""), Limits: list("", "1Gi")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNodeFacts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"hugepages-2048kB", "hugepages-1048576kB", "hugepages-64kB", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"1GB", "2MB", "64KB"}, hugePageSizes(dir)); diff != "" {
		t.Errorf("huge pages (-want +got)\n%s", diff)
	}
	if err := os.MkdirAll(filepath.Join(dir, "cpu3", "thermal_throttle"), 0o700); err != nil {
		t.Fatal(err)
	}
	possible := filepath.Join(dir, "possible")
	if err := os.WriteFile(possible, []byte("0-1,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1, 3}, possibleCPUs(possible)); diff != "" {
		t.Errorf("CPUs (-want +got)\n%s", diff)
	}
	paths := maskedPaths(dir)
	if last := paths[len(paths)-1]; last != filepath.Join(dir, "cpu3", "thermal_throttle") || paths[3] != "/proc/kcore" {
		t.Errorf("got %v", paths)
	}
	for _, nonsense := range []string{"", "x", "0-x", "0-99999999999"} {
		if err := os.WriteFile(possible, []byte(nonsense), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := possibleCPUs(possible); len(got) == 0 || len(got) > 4096 {
			t.Errorf("%q: got %d CPUs", nonsense, len(got))
		}
	}
	if found := readNodeResources(t.Context()); found.memory < 64<<20 {
		t.Errorf("the node has %d bytes of memory", found.memory)
	}
}
