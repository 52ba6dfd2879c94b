// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/logs"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// purgeInitContainers removes every instance of every init container, so that
// they run again in the new sandbox. One that stays decides nothing: what another sandbox
// ran does not count (plan.Differences.OwnSandbox). (kubelet
// kuberuntime_container.go:purgeInitContainers)
func (s *syncRun) purgeInitContainers(ctx context.Context) {
	s.removeInitContainers(ctx, 0, func(plan.ContainerState) bool { return true })
}

// pruneInitContainers keeps only the newest dead instance of an init container.
// It does not look at what a purge of the same sync removed.
// (kubelet kuberuntime_container.go:pruneInitContainersBeforeStart)
func (s *syncRun) pruneInitContainers(ctx context.Context) error {
	s.removeInitContainers(ctx, 1, func(state plan.ContainerState) bool {
		return state == plan.ContainerExited || state == plan.ContainerUnknown
	})
	return nil
}

// removeInitContainers removes the instances of init containers in certain
// states but for the newest few of each name. A failure is logged only: garbage
// collection comes round again.
func (s *syncRun) removeInitContainers(ctx context.Context, keep int, counts func(plan.ContainerState) bool) {
	for i := range s.in.Pod.Spec.InitContainers {
		name := s.in.Pod.Spec.InitContainers[i].Name
		seen := 0
		for j := range s.in.Observed.Containers {
			c := &s.in.Observed.Containers[j]
			if c.Name != name || !counts(c.State) {
				continue
			}
			if seen++; seen <= keep {
				continue
			}
			if err := s.e.removeContainer(ctx, c.ID, false); err != nil && !runtimeerror.IsNotFound(err) {
				logr.FromContextOrDiscard(ctx).Info("Failed to remove init container", "container", name, "error", err.Error())
			}
		}
	}
}

// removeContainer removes a container, its logs first unless they are kept.
// (kubelet kuberuntime_container.go:removeContainer)
func (e *Executor) removeContainer(ctx context.Context, id string, keepLogs bool) error {
	if !keepLogs {
		status, err := e.runtime.ContainerStatus(ctx, id)
		if err != nil {
			return fmt.Errorf("remove the logs of container %q: %w", id, err)
		}
		if err := e.removeLogs(ctx, status.LogPath); err != nil {
			return fmt.Errorf("remove the logs of container %q: %w", status.Name, err)
		}
	}
	return e.runtime.RemoveContainer(ctx, id)
}

// removeLogs removes a container's log and those that were rotated away from it.
func (e *Executor) removeLogs(ctx context.Context, logPath string) error {
	if logPath == "" {
		return nil
	}
	return e.disk.Do(ctx, filepath.Dir(logPath), func() error { return logs.Remove(logPath) })
}
