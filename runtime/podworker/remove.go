// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// flushDelay is the time until the next look while the final status is being
// published; its success wakes the worker at once.
const flushDelay = 5 * time.Second

// remover is the state Terminated.
type remover struct {
	*scope
	saver *saver
	// released: the pod's place holds nothing any more that only running containers
	// need.
	released bool
	leftovers
}

// step removes what is left of a workload that is being deleted, once its last
// status is in the API, and releases the object. One that ended by itself stays
// until it is deleted. (kubelet kubelet.go:SyncTerminatedPod)
func (s *remover) step(ctx context.Context, d desired, usable Usable) (time.Duration, error) {
	if !d.deleted {
		s.report(d, s.unseen(), usable)
		if s.released {
			return jitter(resyncInterval), nil
		}
	}
	observed := s.stopped
	s.stopped = nil
	if observed == nil {
		var err error
		if observed, err = s.cfg.Runtime.PodStatus(ctx, s.id.UID); err != nil {
			return s.removalFailed(fmt.Errorf("observe before the removal: %w", err))
		}
	}
	if names := running(observed); len(names) > 0 {
		// A start that the runtime had begun ended after the kill.
		s.log.Info("Containers run after the kill; killing again", "containers", names)
		s.advance(stateInput{running: true})
		return 0, nil
	}
	if !d.deleted {
		if wait := s.rest(d.deleted); wait > 0 {
			return wait, nil
		}
		return s.release(ctx, d, observed, usable)
	}
	if wait := s.rest(d.deleted); wait > 0 {
		return wait, nil
	}
	if err := s.removeContainers(ctx, observed); err != nil {
		return s.removalFailed(err)
	}
	if err := s.free(ctx, d, &plan.PodStatus{}, usable, s.cfg.PodDir.Remove); err != nil {
		return s.removalFailed(fmt.Errorf("remove the pod's directories: %w", err))
	}
	if !s.mem.flushed() {
		signal(s.news)
		return flushDelay, nil
	}
	if err := s.saver.remove(ctx); err != nil {
		return jitter(errorDelay), err
	}
	if err := s.cfg.Publisher.Release(ctx, s.id); err != nil && !errors.Is(err, ErrGone) {
		return jitter(errorDelay) / 5, fmt.Errorf("release the object: %w", err)
	}
	s.cfg.Prober.Remove(s.id.UID)
	s.advance(stateInput{deleted: true, removed: true})
	return 0, nil
}

// release gives back what a workload that ended by itself no longer needs.
func (s *remover) release(ctx context.Context, d desired, observed *plan.PodStatus, usable Usable) (time.Duration, error) {
	if err := s.free(ctx, d, observed, usable, s.cfg.PodDir.Release); err != nil {
		return s.retryLater(errorDelay), fmt.Errorf("release volumes and cgroup: %w", err)
	}
	s.released = true
	s.mem.setReleased()
	return jitter(resyncInterval), nil
}

func (s *remover) removalFailed(err error) (time.Duration, error) {
	s.warn(failedKillPodReason, fmt.Sprintf(failedKillPodMessage, err))
	return s.retryLater(killRetryMin), err
}

// removeContainers removes containers and sandboxes that do not run.
func (s *remover) removeContainers(ctx context.Context, observed *plan.PodStatus) error {
	for _, c := range observed.Containers {
		if err := s.cfg.Runtime.RemoveContainer(ctx, c.ID); err != nil && !runtimeerror.IsNotFound(err) {
			return fmt.Errorf("remove container %q: %w", c.Name, err)
		}
	}
	for _, sandbox := range observed.Sandboxes {
		if sandbox.State == plan.SandboxReady {
			if err := s.cfg.Runtime.StopSandbox(ctx, sandbox.ID); err != nil && !runtimeerror.IsNotFound(err) {
				return fmt.Errorf("stop sandbox %q: %w", sandbox.ID, err)
			}
		}
		if err := s.cfg.Runtime.RemoveSandbox(ctx, sandbox.ID); err != nil && !runtimeerror.IsNotFound(err) {
			return fmt.Errorf("remove sandbox %q: %w", sandbox.ID, err)
		}
	}
	return nil
}
