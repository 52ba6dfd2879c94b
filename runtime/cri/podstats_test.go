// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func (f *fakeRuntime) ListPodSandboxStats(_ context.Context, r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	if f.sandboxStatsErr != nil {
		return nil, f.sandboxStatsErr
	}
	response := &runtimeapi.ListPodSandboxStatsResponse{}
	for _, s := range f.sandboxStats {
		if matches(s.GetAttributes().GetLabels(), r.GetFilter().GetLabelSelector()) {
			response.Stats = append(response.Stats, s)
		}
	}
	return response, nil
}

// What a pod uses is that of its cgroup, or else the sum of its containers' latest instances; a
// runtime that knows nothing of pods is one that has not measured them.
func TestPodUses(t *testing.T) {
	t.Parallel()
	f, c := newFake(t)
	n := func(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }
	labels := func(uid, name, instance string) map[string]string {
		return map[string]string{labelPodUID: uid, labelContainerName: name, LabelManagedBy: ManagedByShim, LabelInstance: instance}
	}
	container := func(uid, name, instance string, attempt uint32, memory *runtimeapi.UInt64Value) *runtimeapi.ContainerStats {
		return &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{
				Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}, Labels: labels(uid, name, instance),
			},
			Memory:        &runtimeapi.MemoryUsage{WorkingSetBytes: memory},
			WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: n(7), InodesUsed: n(3)},
		}
	}
	f.stats = []*runtimeapi.ContainerStats{
		container("u", "b", "node-1", 0, n(1)), container("u", "a", "node-1", 1, n(10)), container("u", "a", "node-1", 2, n(20)),
		container("v", "a", "node-1", 0, nil), container("w", "a", "node-2", 0, n(5)),
	}
	f.sandboxStats = []*runtimeapi.PodSandboxStats{
		{Attributes: &runtimeapi.PodSandboxAttributes{Labels: labels("v", "", "node-1")}, Linux: &runtimeapi.LinuxPodSandboxStats{
			Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: n(99)}, Process: &runtimeapi.ProcessUsage{ProcessCount: n(4)},
		}},
		{Attributes: &runtimeapi.PodSandboxAttributes{Labels: labels("w", "", "node-2")}},
	}
	layer := plan.DiskUse{Bytes: new(int64(7)), Inodes: new(int64(3))}
	of := func(name string, memory *int64) plan.ContainerUse {
		return plan.ContainerUse{Name: name, Memory: memory, RootFs: layer}
	}
	want := map[types.UID]*plan.PodUse{
		"u": {Memory: new(int64(21)), Containers: []plan.ContainerUse{of("a", new(int64(20))), of("b", new(int64(1)))}},
		"v": {Memory: new(int64(99)), Processes: new(int64(4)), Containers: []plan.ContainerUse{of("a", nil)}},
	}
	got, err := c.PodUses(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	f.sandboxStatsErr = status.Error(codes.Unimplemented, "unknown method")
	want["v"].Memory, want["v"].Processes = nil, nil
	got, err = c.PodUses(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	f.sandboxStatsErr = status.Error(codes.Unavailable, "away")
	if _, err = c.PodUses(t.Context()); err == nil {
		t.Error("a runtime that is away has measured all")
	}
}
