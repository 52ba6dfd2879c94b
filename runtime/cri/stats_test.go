// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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
