// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/nodestats"
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

// usageTimeout bounds the question what all containers use, which asks each of them.
const usageTimeout = 30 * time.Second

// ContainerUsage is what the containers of this shim use that run, by pod; it implements
// nodestats.Runtime.
func (c *Client) ContainerUsage(ctx context.Context) ([]nodestats.PodStats, error) {
	ours := map[string]string{LabelManagedBy: ManagedByShim, LabelInstance: c.config.Instance}
	listed, err := invoke(ctx, usageTimeout, "list containers", c.runtime.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: ours}})
	if err != nil {
		return nil, err
	}
	created := map[string]int64{}
	for _, ctr := range listed.GetContainers() {
		if ctr.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			created[ctr.GetId()] = ctr.GetCreatedAt()
		}
	}
	if len(created) == 0 {
		return nil, nil
	}
	answer, err := invoke(ctx, usageTimeout, "ask what containers use", c.runtime.ListContainerStats,
		&runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: ours}})
	if err != nil {
		return nil, err
	}
	return byPod(answer.GetStats(), created), nil
}

// byPod gathers what containers use that run and were measured.
func byPod(stats []*runtimeapi.ContainerStats, created map[string]int64) []nodestats.PodStats {
	var pods []nodestats.PodStats
	index := map[types.UID]int{}
	for _, s := range stats {
		id, labels := s.GetAttributes().GetId(), s.GetAttributes().GetLabels()
		at, runs := created[id]
		if !runs || s.GetCpu().GetUsageCoreNanoSeconds() == nil {
			continue
		}
		uid := types.UID(labels[labelPodUID])
		i, known := index[uid]
		if !known {
			i = len(pods)
			index[uid] = i
			pods = append(pods, nodestats.PodStats{UID: uid, Namespace: labels[labelPodNamespace], Name: labels[labelPodName]})
		}
		pods[i].Containers = append(pods[i].Containers, nodestats.ContainerStats{
			Name: containerName(labels, s.GetAttributes().GetMetadata()), ID: id, Created: time.Unix(0, at), Usage: usageOf(s),
			Disk: s.GetWritableLayer().GetUsedBytes().GetValue(), Inodes: s.GetWritableLayer().GetInodesUsed().GetValue(),
		})
	}
	return pods
}

func usageOf(s *runtimeapi.ContainerStats) nodestats.Usage {
	u := nodestats.Usage{
		Time:       time.Unix(0, s.GetCpu().GetTimestamp()),
		CPU:        time.Duration(min(s.GetCpu().GetUsageCoreNanoSeconds().GetValue(), 1<<62)),
		WorkingSet: s.GetMemory().GetWorkingSetBytes().GetValue(),
	}
	if swap := s.GetSwap(); swap.GetSwapUsageBytes() != nil {
		u.Swap = &nodestats.Swap{Used: swap.GetSwapUsageBytes().GetValue(), Available: swap.GetSwapAvailableBytes().GetValue()}
	}
	return u
}
