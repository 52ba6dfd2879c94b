// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// sortContainers puts containers newest first. Of two instances of one name the
// one with the greater restart count is newer, whatever the clock said: one that
// was set back would make an old instance the newest, and have the one that
// runs killed or another started beside it. The time of such an old instance is
// moved to just before that of the next one, so that all who go by it agree.
func sortContainers(containers []plan.ContainerStatus) {
	byTime := func(a, b plan.ContainerStatus) int { return b.CreatedAt.Compare(a.CreatedAt) }
	slices.SortStableFunc(containers, byTime)
	if !clockWasSetBack(containers) {
		return
	}
	instances := map[string][]*plan.ContainerStatus{}
	for i := range containers {
		c := &containers[i]
		instances[c.Name] = append(instances[c.Name], c)
	}
	for _, list := range instances {
		slices.SortStableFunc(list, func(a, b *plan.ContainerStatus) int { return cmp.Compare(b.RestartCount, a.RestartCount) })
		for i := 1; i < len(list); i++ {
			if next := list[i-1].CreatedAt; !list[i].CreatedAt.Before(next) {
				list[i].CreatedAt = next.Add(-time.Nanosecond)
			}
		}
	}
	slices.SortStableFunc(containers, byTime)
}

// newestFirst returns listed containers in the order of sortContainers.
func newestFirst(listed []*runtimeapi.Container) []*runtimeapi.Container {
	byID := make(map[string]*runtimeapi.Container, len(listed))
	order := make([]plan.ContainerStatus, 0, len(listed))
	for _, c := range listed {
		recorded, _ := readContainer(c.GetAnnotations(), c.GetMetadata().GetAttempt())
		byID[c.GetId()] = c
		order = append(order, plan.ContainerStatus{
			ID: c.GetId(), Name: containerName(c.GetLabels(), c.GetMetadata()),
			CreatedAt: at(c.GetCreatedAt()), RestartCount: recorded.restartCount,
		})
	}
	sortContainers(order)
	sorted := make([]*runtimeapi.Container, 0, len(listed))
	for i := range order {
		sorted = append(sorted, byID[order[i].ID])
	}
	return sorted
}

// clockWasSetBack reports whether an instance seems to be older than one with a
// smaller restart count.
func clockWasSetBack(newestFirst []plan.ContainerStatus) bool {
	for i := range newestFirst {
		for j := range i {
			if newestFirst[j].Name == newestFirst[i].Name && newestFirst[j].RestartCount < newestFirst[i].RestartCount {
				return true
			}
		}
	}
	return false
}
