// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/nodestats"
)

func (f *fakeRuntime) ListContainerStats(_ context.Context, r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	response := &runtimeapi.ListContainerStatsResponse{}
	for _, s := range f.stats {
		if matches(s.GetAttributes().GetLabels(), r.GetFilter().GetLabelSelector()) {
			response.Stats = append(response.Stats, s)
		}
	}
	return response, nil
}

func (f *fakeRuntime) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}},
	}}, nil
}

// Of several instances of a container the latest counts; another pod's and those of another
// shim do not, and what was not measured is not 0.
func TestWritableLayers(t *testing.T) {
	t.Parallel()
	f, c := newFake(t)
	used := func(uid, name, instance string, attempt uint32, bytes *runtimeapi.UInt64Value) *runtimeapi.ContainerStats {
		return &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{
				Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
				Labels: map[string]string{
					labelPodUID: uid, labelContainerName: name, LabelManagedBy: ManagedByShim, LabelInstance: instance,
				},
			},
			WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: bytes},
		}
	}
	bytes := func(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }
	f.stats = []*runtimeapi.ContainerStats{
		used("u", "a", "node-1", 2, bytes(20)), used("u", "a", "node-1", 1, bytes(10)), used("u", "b", "node-1", 0, nil),
		used("u", "c", "node-1", 0, bytes(1<<63)), used("u", "d", "node-2", 0, bytes(1)), used("v", "e", "node-1", 0, bytes(1)),
	}
	got, err := c.WritableLayers(t.Context(), "u")
	if diff := cmp.Diff(map[string]int64{"a": 20, "c": 1 << 62}, got); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
	if path, err := c.ImageFilesystem(t.Context()); path != "/images" || err != nil {
		t.Errorf("images at %q, error %v", path, err)
	}
}

// What runs and was measured counts, by pod; what has ended, another shim's and what the runtime
// has no figures of do not.
func TestContainerUsage(t *testing.T) {
	t.Parallel()
	f, c := newFake(t)
	value := func(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }
	add := func(id, uid, instance string, state runtimeapi.ContainerState, cpu *runtimeapi.UInt64Value) {
		labels := map[string]string{
			labelPodUID: uid, labelPodName: "pod-" + uid, labelPodNamespace: "ns", labelContainerName: id,
			LabelManagedBy: ManagedByShim, LabelInstance: instance,
		}
		f.containers = append(f.containers, &fakeContainer{ContainerStatus: &runtimeapi.ContainerStatus{Id: id, Labels: labels, State: state, CreatedAt: 5e9}})
		f.stats = append(f.stats, &runtimeapi.ContainerStats{
			Attributes:    &runtimeapi.ContainerAttributes{Id: id, Labels: labels},
			Cpu:           &runtimeapi.CpuUsage{Timestamp: 7e9, UsageCoreNanoSeconds: cpu},
			Memory:        &runtimeapi.MemoryUsage{WorkingSetBytes: value(30)},
			Swap:          &runtimeapi.SwapUsage{SwapUsageBytes: value(1), SwapAvailableBytes: value(2)},
			WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: value(4), InodesUsed: value(5)},
		})
	}
	running := runtimeapi.ContainerState_CONTAINER_RUNNING
	add("a", "u", "node-1", running, value(20))
	add("ended", "u", "node-1", runtimeapi.ContainerState_CONTAINER_EXITED, value(20))
	add("b", "u", "node-1", running, value(21))
	add("new", "u", "node-1", running, nil)
	add("foreign", "v", "node-2", running, value(22))
	add("c", "w", "node-1", running, value(23))
	got, err := c.ContainerUsage(t.Context())
	ctr := func(id string, cpu time.Duration) nodestats.ContainerStats {
		return nodestats.ContainerStats{
			Name: id, ID: id, Created: time.Unix(5, 0), Disk: 4, Inodes: 5,
			Usage: nodestats.Usage{Time: time.Unix(7, 0), CPU: cpu, WorkingSet: 30, Swap: &nodestats.Swap{Used: 1, Available: 2}},
		}
	}
	want := []nodestats.PodStats{
		{UID: "u", Namespace: "ns", Name: "pod-u", Containers: []nodestats.ContainerStats{ctr("a", 20), ctr("b", 21)}},
		{UID: "w", Namespace: "ns", Name: "pod-w", Containers: []nodestats.ContainerStats{ctr("c", 23)}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
}
