// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// unlimited takes a limit away; 0 would leave it as it is.
const unlimited = -1

// UpdateContainerResources gives a running container other resources. A limit that
// is taken away is lifted. The OOM score stays that of the container's creation.
// (kubelet kuberuntime_container.go:updateContainerResources)
func (c *Client) UpdateContainerResources(ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string, from, to plan.Resources) error {
	updated := *container
	updated.Resources = to.Requirements()
	resources := c.node.containerResources(pod, &updated)
	resources.HugepageLimits = c.node.hugePageLimits(container)
	if from.CPULimit > 0 && to.CPULimit == 0 {
		resources.CpuQuota = unlimited
	}
	if from.MemoryLimit > 0 && to.MemoryLimit == 0 {
		resources.MemoryLimitInBytes = unlimited
		if c.node.swapLimits && !c.node.unified {
			resources.MemorySwapLimitInBytes = unlimited
		}
	}
	_, err := invoke(ctx, c.callTimeout, quote("update the resources of container", container.Name), c.runtime.UpdateContainerResources,
		&runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: resources})
	c.statuses.forgetContainer(id)
	return err
}

// MemoryUse is how many bytes of memory a container uses.
func (c *Client) MemoryUse(ctx context.Context, id string) (uint64, error) {
	operation := quote("read the statistics of container", id)
	response, err := invoke(ctx, c.callTimeout, operation, c.runtime.ContainerStats,
		&runtimeapi.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return 0, err
	}
	use := response.GetStats().GetMemory().GetUsageBytes()
	if use == nil {
		return 0, badAnswer(operation, "the runtime gave no memory usage")
	}
	return use.GetValue(), nil
}
