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
	remove := func(ctx context.Context, id Identity) error { return s.remove(ctx, id, observed) }
	if err := s.free(ctx, d, observed, usable, remove); err != nil {
		return s.removalFailed(err)
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
	return s.retryLater(plan.KillRetryAfter(1)), err
}

// remove removes containers and sandboxes, of which none runs, and the pod's place.
func (s *remover) remove(ctx context.Context, id Identity, observed *plan.PodStatus) error {
	if err := s.removeContainers(ctx, observed); err != nil {
		return err
	}
	if err := s.cfg.PodDir.Remove(ctx, id); err != nil {
		return fmt.Errorf("remove the pod's directories: %w", err)
	}
	return nil
}

// removeContainers removes containers and sandboxes that do not run. A container that the runtime
// does not remove keeps its sandbox, and holds up no other.
func (s *remover) removeContainers(ctx context.Context, observed *plan.PodStatus) error {
	runtime := s.cfg.Runtime
	var errs []error
	failed := func(what, name string, err error) {
		if err != nil && !runtimeerror.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%s %q: %w", what, name, err))
		}
	}
	for _, c := range observed.Containers {
		failed("remove container", c.Name, runtime.RemoveContainer(ctx, c.ID))
	}
	for _, sandbox := range observed.Sandboxes {
		if sandbox.State == plan.SandboxReady {
			failed("stop sandbox", sandbox.ID, runtime.StopSandbox(ctx, sandbox.ID))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, sandbox := range observed.Sandboxes {
		failed("remove sandbox", sandbox.ID, runtime.RemoveSandbox(ctx, sandbox.ID))
	}
	return errors.Join(errs...)
}
