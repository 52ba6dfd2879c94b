// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"
	"slices"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// copyActuated returns a copy for a sync to work on.
func copyActuated(given map[string]plan.Resources) map[string]plan.Resources {
	given = maps.Clone(given)
	if given == nil {
		given = map[string]plan.Resources{}
	}
	return given
}

// keepActuated keeps what a sync has left, but for containers that do not run.
func (s *syncer) keepActuated(given map[string]plan.Resources, observed *plan.PodStatus) {
	maps.DeleteFunc(given, func(id string, _ plan.Resources) bool {
		return !slices.ContainsFunc(observed.Containers, func(c plan.ContainerStatus) bool {
			return c.ID == id && c.State == plan.ContainerRunning
		})
	})
	s.mem.keepActuated(given)
}

// keepBackoff keeps the entries that a sync has left, but for those that are too old to
// count. (kubelet kubelet.go: backOff.GC in HandlePodCleanups)
func (s *syncer) keepBackoff(entries map[string]*plan.Backoff) {
	policy := plan.DefaultBackoffPolicy()
	now := s.moment()
	maps.DeleteFunc(entries, func(_ string, e *plan.Backoff) bool { return e == nil || policy.Forgotten(e, now) })
	s.mem.keepBackoff(entries)
}
