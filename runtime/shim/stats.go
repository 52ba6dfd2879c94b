// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/nodestats"
)

// procDir shows the whole node's CPU and memory in a container, too.
const procDir = "/proc"

// makeStats makes what measures node and workloads, and serves /metrics/resource.
func (s *shim) makeStats() error {
	s.stats = nodestats.New(nodestats.Config{
		Runtime: s.runtime,
		Cgroup:  s.cgroupUsage,
		Node:    func() (nodestats.Usage, error) { return nodestats.ReadNode(procDir) },
	})
	return s.mgr.AddMetricsServerExtraHandler("/metrics/resource", s.stats.Handler())
}

// cgroupUsage is what a pod's cgroup says. Where it cannot be read, its containers count.
func (s *shim) cgroupUsage(uid types.UID) (nodestats.Usage, uint64, bool) {
	used, err := s.cgroups.UsageOf(uid)
	if err != nil {
		return nodestats.Usage{}, 0, false
	}
	return nodestats.Usage{Time: time.Now(), CPU: used.CPU, WorkingSet: used.WorkingSet}, used.Processes, true
}

func (s *shim) usagePoster(log logr.Logger) *usagePoster {
	return &usagePoster{node: s.options.NodeName, stats: s.stats, post: s.postUsage, log: log.WithName("usage")}
}
