// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/diskusage"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/poddir"
)

// makeDiskUsage makes what measures workloads with a disk limit.
func (s *shim) makeDiskUsage(log logr.Logger) *diskusage.Keeper {
	return diskusage.New(diskusage.Config{
		Pods:     s.boundedPods,
		Places:   s.placesOf,
		Measured: s.pool.Measured,
		Runtime:  s.runtime,
		PodsDir:  s.options.podsDir(),
		HostRoot: hostfs.Root(s.options.HostRoot),
		Logger:   log.WithName("diskusage"),
	})
}

func (s *shim) boundedPods() []diskusage.Pod {
	bounded := s.pool.Bounded()
	pods := make([]diskusage.Pod, 0, len(bounded))
	for _, b := range bounded {
		pods = append(pods, diskusage.Pod{UID: b.UID, Namespace: b.Namespace, Name: b.Name, Urgent: b.Urgent})
	}
	return pods
}

func (s *shim) placesOf(pod diskusage.Pod) diskusage.Places {
	return diskusage.Places(s.dirs.PlacesOf(poddir.Identity{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}))
}
