// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// PodUses returns what the pods of this shim use of memory, process IDs and the disk of the
// runtime, by UID. The memory of a pod is that of its cgroup, or else the sum of its containers'.
// (kubelet stats/cri_stats_provider.go:listPodStatsPartiallyFromCRI)
func (c *Client) PodUses(ctx context.Context) (map[types.UID]*plan.PodUse, error) {
	ours := map[string]string{LabelManagedBy: ManagedByShim, LabelInstance: c.config.Instance}
	containers, err := invoke(ctx, readyTimeout, "ask what containers use", c.runtime.ListContainerStats,
		&runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: ours}})
	if err != nil {
		return nil, err
	}
	sandboxes, err := invoke(ctx, readyTimeout, "ask what pods use", c.runtime.ListPodSandboxStats,
		&runtimeapi.ListPodSandboxStatsRequest{Filter: &runtimeapi.PodSandboxStatsFilter{LabelSelector: ours}})
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return nil, err
	case codes.OK:
	default:
		sandboxes = nil // one sandbox that cannot be measured fails the answer for all
	}
	uses := map[types.UID]*plan.PodUse{}
	addContainerUses(uses, containers.GetStats())
	for _, s := range sandboxes.GetStats() {
		use := useOf(uses, s.GetAttributes().GetLabels())
		if used := s.GetLinux().GetMemory().GetWorkingSetBytes(); used != nil {
			use.Memory = number(used)
		}
		use.Processes = number(s.GetLinux().GetProcess().GetProcessCount())
	}
	return uses, nil
}

// addContainerUses adds what containers use; of several instances of one, the latest.
func addContainerUses(uses map[types.UID]*plan.PodUse, all []*runtimeapi.ContainerStats) {
	latest := slices.SortedStableFunc(slices.Values(all), func(a, b *runtimeapi.ContainerStats) int {
		if name := strings.Compare(nameOf(a), nameOf(b)); name != 0 {
			return name
		}
		return int(b.GetAttributes().GetMetadata().GetAttempt()) - int(a.GetAttributes().GetMetadata().GetAttempt())
	})
	for _, s := range latest {
		use, name := useOf(uses, s.GetAttributes().GetLabels()), nameOf(s)
		if slices.ContainsFunc(use.Containers, func(c plan.ContainerUse) bool { return c.Name == name }) {
			continue
		}
		ctr := plan.ContainerUse{Name: name, Memory: number(s.GetMemory().GetWorkingSetBytes())}
		ctr.RootFs.Bytes, ctr.RootFs.Inodes = number(s.GetWritableLayer().GetUsedBytes()), number(s.GetWritableLayer().GetInodesUsed())
		use.Containers = append(use.Containers, ctr)
		if ctr.Memory != nil {
			sum := *ctr.Memory
			if use.Memory != nil {
				sum += *use.Memory
			}
			use.Memory = &sum
		}
	}
}

func nameOf(s *runtimeapi.ContainerStats) string {
	return containerName(s.GetAttributes().GetLabels(), s.GetAttributes().GetMetadata())
}

// useOf is that of the pod that labels name.
func useOf(uses map[types.UID]*plan.PodUse, labels map[string]string) *plan.PodUse {
	uid := types.UID(labels[labelPodUID])
	if uses[uid] == nil {
		uses[uid] = &plan.PodUse{}
	}
	return uses[uid]
}

// number is a measured number, nil where it was not measured.
func number(n *runtimeapi.UInt64Value) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(min(n.GetValue(), 1<<62)))
}
