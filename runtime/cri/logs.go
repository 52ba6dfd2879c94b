// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/logs"
)

// LogContainers lists the containers that this shim created.
func (c *Client) LogContainers(ctx context.Context) ([]logs.Container, error) {
	response, err := invoke(ctx, c.callTimeout, "list containers", c.runtime.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			LabelSelector: map[string]string{LabelManagedBy: ManagedByShim, LabelInstance: c.config.Instance},
		}})
	if err != nil {
		return nil, err
	}
	var own []logs.Container
	for _, ctr := range response.GetContainers() {
		labels := ctr.GetLabels()
		if !c.ours(labels) { // a runtime may not filter
			continue
		}
		own = append(own, logs.Container{
			ID: ctr.GetId(), Name: containerName(labels, ctr.GetMetadata()),
			PodNamespace: labels[labelPodNamespace], PodName: labels[labelPodName],
			Running: ctr.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING,
		})
	}
	return own, nil
}

// LogPath returns the log of a container on the node, "" if it has none.
func (c *Client) LogPath(ctx context.Context, id string) (string, error) {
	s, err := c.rawContainerStatus(ctx, id)
	return s.GetLogPath(), err
}

// ReopenLog has the runtime open the log of a running container again by its path.
func (c *Client) ReopenLog(ctx context.Context, id string) error {
	_, err := invoke(ctx, c.callTimeout, quote("reopen the log of container", id), c.runtime.ReopenContainerLog,
		&runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	return err
}
