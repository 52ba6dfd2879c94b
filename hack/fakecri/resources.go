// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// MemoryUse is how many bytes every container uses, and the pod for the kubelet.
const MemoryUse = 40 << 20

// UpdateContainerResources implements CRI. Of the resources only CPU and memory
// are recorded.
func (r *Runtime) UpdateContainerResources(_ context.Context, req *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.find(req.GetContainerId())
	if err != nil {
		r.record("UpdateContainerResources", "", "%s is not there", req.GetContainerId())
		return nil, err
	}
	kind, err := r.fail("UpdateContainerResources", c.Name, c.ID)
	r.record("UpdateContainerResources", c.Name, "%s %s error=%q", c.ID, cpuAndMemory(req.GetLinux()), kind)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

func cpuAndMemory(r *runtimeapi.LinuxContainerResources) string {
	return fmt.Sprintf("shares=%d quota=%d/%d memory=%d", r.GetCpuShares(), r.GetCpuQuota(), r.GetCpuPeriod(), r.GetMemoryLimitInBytes())
}

// ContainerStats implements CRI.
func (r *Runtime) ContainerStats(_ context.Context, req *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.find(req.GetContainerId()); err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{
		Memory: &runtimeapi.MemoryUsage{UsageBytes: &runtimeapi.UInt64Value{Value: MemoryUse}},
	}}, nil
}
