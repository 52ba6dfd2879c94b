// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// runs notes that the template runs, because there was nothing left to do but to wait.
func (s *syncer) runs(ctx context.Context, d desired, observed *plan.PodStatus, r report, actions plan.Actions, usable Usable) {
	s.parts.dropErrors()
	killed := s.mem.setKillError(s.parts.killError())
	changed := s.noteTemplate(d, observed, actions)
	if changed {
		s.dropVolumes(ctx, d)
	}
	if changed || killed {
		r.due = nil // reported already
		s.report(d, r, usable)
	}
}

// dropVolumes unmounts what the template has lost where nothing had to be started for it.
func (s *syncer) dropVolumes(ctx context.Context, d desired) {
	if err := s.cfg.PodDir.Prepare(ctx, d.pod); err != nil {
		s.log.Info("Failed to bring volumes up to date; retrying", "reason", err.Error())
	}
}

// noteTemplate notes which template runs: once nothing of another is left to be
// killed or resized, or waits for that, which is not known before the API has shown the
// object. It says whether that is news.
func (s *syncer) noteTemplate(d desired, observed *plan.PodStatus, left plan.Actions) bool {
	if s.waits.keeps != nil {
		return false // the plan is not that of the template
	}
	if len(s.parts.list) > 0 {
		return false // not all of the plan is carried out
	}
	if !d.seen || left.KillPod || len(left.ContainersToKill) > 0 || left.Resizes() || left.Waiting() {
		return false
	}
	if len(plan.RunsEarlier(s.planInput(d, observed).Definitions, observed)) > 0 {
		return false // a sidecar that has not started yet is replaced later
	}
	within, asks := s.mem.withinLimits(d)
	if asks {
		s.cfg.Measure()
	}
	if !within {
		return false
	}
	return s.mem.noteTemplate(d)
}

// noteEnded notes the template of a workload that had ended when it was looked at: the
// process that started it may have crashed before recording it, and the manager would
// have it run again.
func (s *syncer) noteEnded(d desired, observed *plan.PodStatus) {
	nothing := len(observed.Containers) == 0 && s.mem.templateHash() == ""
	if nothing || plan.MadeFrom(s.planInput(d, observed).Definitions, observed) {
		s.mem.noteTemplate(d)
	}
}

// createdAny reports whether a sync created a container, whatever became of it: one
// that was killed for its postStart hook was an instance of the template too.
func createdAny(before, after *plan.PodStatus) bool {
	return slices.ContainsFunc(after.Containers, func(c plan.ContainerStatus) bool {
		return !slices.ContainsFunc(before.Containers, func(old plan.ContainerStatus) bool { return old.ID == c.ID })
	})
}

// diedMeanwhile reports whether a container that a sync created has exited already.
func diedMeanwhile(before, after *plan.PodStatus) bool {
	exited := &plan.PodStatus{}
	for _, c := range after.Containers {
		if c.State == plan.ContainerExited {
			exited.Containers = append(exited.Containers, c)
		}
	}
	return createdAny(before, exited)
}

// remember keeps why containers wait. (kubelet reason_cache.go:Update)
func (s *syncer) remember(outcome plan.SyncOutcome) {
	for name, reason := range outcome.Tried {
		if reason == (status.Reason{}) {
			delete(s.waiting, name)
		} else {
			s.waiting[name] = reason
		}
	}
}
