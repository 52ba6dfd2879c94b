// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// WritableLayers returns how many bytes the containers of a pod have written into their root
// file systems, by name; of several instances of one, those of the latest. One that the
// runtime has not measured yet is left out. (kubelet stats/cri_stats_provider.go:makeContainerStats)
func (c *Client) WritableLayers(ctx context.Context, uid types.UID) (map[string]int64, error) {
	answer, err := invoke(ctx, readyTimeout, "ask what containers use of the disk", c.runtime.ListContainerStats,
		&runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: c.labelsOf(uid)}})
	if err != nil {
		return nil, err
	}
	layers, attempts := map[string]int64{}, map[string]uint32{}
	for _, s := range answer.GetStats() {
		name, attempt := containerName(s.GetAttributes().GetLabels(), s.GetAttributes().GetMetadata()), s.GetAttributes().GetMetadata().GetAttempt()
		used := s.GetWritableLayer().GetUsedBytes()
		if used == nil || attempt < attempts[name] {
			continue
		}
		layers[name], attempts[name] = int64(min(used.GetValue(), 1<<62)), attempt
	}
	return layers, nil
}

// ImageFilesystem returns a path of the node where the runtime keeps its images.
func (c *Client) ImageFilesystem(ctx context.Context) (string, error) {
	const operation = "ask where the runtime keeps images"
	answer, err := invoke(ctx, readyTimeout, operation, c.images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return "", err
	}
	for _, fs := range answer.GetImageFilesystems() {
		if path := fs.GetFsId().GetMountpoint(); path != "" {
			return path, nil
		}
	}
	return "", badAnswer(operation, "no image file system")
}
