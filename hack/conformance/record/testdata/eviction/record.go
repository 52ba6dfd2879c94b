// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Added to the kubelet's package by an overlay, to reach what it does not export.

package eviction

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
)

// RecordThresholdsMet calls makeSignalObservations and thresholdsMet.
func RecordThresholdsMet(thresholds []evictionapi.Threshold, summary *statsapi.Summary, strict bool) []evictionapi.Threshold {
	observed, _ := makeSignalObservations(klog.Background(), summary)
	return thresholdsMet(klog.Background(), thresholds, observed, strict)
}

// RecordRank calls the function that ranks pods for a signal.
func RecordRank(signal evictionapi.Signal, imageFs bool, pods []*v1.Pod, stats []statsapi.PodStats) {
	buildSignalToRankFunc(imageFs, false)[signal](pods, cachedStatsFunc(stats))
}

// RecordSynchronize calls synchronize, and returns the node's conditions then.
func RecordSynchronize(ctx context.Context, m Manager, disks DiskInfoProvider, pods ActivePodsFunc) ([]v1.NodeConditionType, error) {
	manager := m.(*managerImpl)
	_, err := manager.synchronize(ctx, disks, pods)
	return manager.nodeConditions, err
}
