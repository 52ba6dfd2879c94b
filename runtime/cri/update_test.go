// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// UpdateContainerResources keeps what it is given, as a runtime does that has no
// other limits than those that are set.
func (f *fakeRuntime) UpdateContainerResources(_ context.Context, r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	c.Resources = &runtimeapi.ContainerResources{Linux: r.GetLinux()}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// ContainerStats reports memory only of a container that has a limit.
func (f *fakeRuntime) ContainerStats(_ context.Context, r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	stats := &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{}}
	if limit := c.Resources.GetLinux().GetMemoryLimitInBytes(); limit > 0 {
		stats.Memory.UsageBytes = &runtimeapi.UInt64Value{Value: uint64(limit) / 2}
	}
	return &runtimeapi.ContainerStatsResponse{Stats: stats}, nil
}

func TestUpdateContainerResources(t *testing.T) {
	const mega = 1 << 20
	tests := map[string]struct {
		from, to                       plan.Resources
		wantShares, wantQuota, wantMem int64
	}{
		"more":                {from: plan.Resources{CPULimit: 100}, to: plan.Resources{CPURequest: 500, CPULimit: 1000, MemoryLimit: 64 * mega}, wantShares: 512, wantQuota: 100000, wantMem: 64 * mega},
		"limits taken away":   {from: plan.Resources{CPULimit: 100, MemoryLimit: mega}, to: plan.Resources{CPURequest: 500}, wantShares: 512, wantQuota: -1, wantMem: -1},
		"limits never there":  {to: plan.Resources{CPURequest: 500}, wantShares: 512},
		"a request taken off": {from: plan.Resources{CPURequest: 500, CPULimit: 1000}, to: plan.Resources{CPULimit: 1000}, wantShares: 2, wantQuota: 100000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, client := newFake(t)
			pod := newPod()
			app := &pod.Spec.Containers[0]
			id := start(t, client, pod, app, runSandbox(t, client, pod, 0), 0)
			podStatus(t, client)
			if err := client.UpdateContainerResources(t.Context(), pod, app, id, tt.from, tt.to); err != nil {
				t.Fatal(err)
			}
			got := request[runtimeapi.UpdateContainerResourcesRequest](t, f, "UpdateContainerResources").GetLinux()
			if got.GetCpuShares() != tt.wantShares || got.GetCpuQuota() != tt.wantQuota || got.GetMemoryLimitInBytes() != tt.wantMem {
				t.Errorf("shares %d, quota %d, memory %d, want %d, %d, %d",
					got.GetCpuShares(), got.GetCpuQuota(), got.GetMemoryLimitInBytes(), tt.wantShares, tt.wantQuota, tt.wantMem)
			}
			// What was remembered of the container is not believed any more.
			if r := podStatus(t, client).Containers[0].Resources; r == nil || r.Limits.Memory().Value() != max(0, tt.wantMem) {
				t.Errorf("observed %+v", r)
			}
		})
	}
}

func TestMemoryUse(t *testing.T) {
	_, client := newFake(t)
	pod := newPod()
	app := &pod.Spec.Containers[0]
	app.Resources = (plan.Resources{MemoryLimit: 10 << 20}).Requirements()
	id := start(t, client, pod, app, runSandbox(t, client, pod, 0), 0)
	if use, err := client.MemoryUse(t.Context(), id); err != nil || use != 5<<20 {
		t.Errorf("uses %d, error %v", use, err)
	}
	if err := client.UpdateContainerResources(t.Context(), pod, app, id, plan.Resources{}, plan.Resources{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.MemoryUse(t.Context(), id); err == nil {
		t.Error("no error without a usage")
	}
}
