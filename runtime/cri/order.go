// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"slices"
	"time"

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

// clockWasSetBack tells whether an instance seems to be older than one with a
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
