// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// Words of the kubelet about kills. (kubelet kubelet.go:SyncTerminatingPod)
const (
	failedKillPodReason  = "FailedKillPod"
	failedKillPodMessage = "error killing pod: %v"
)

// terminator is the state Terminating.
type terminator struct{ *scope }

// step kills everything, until the runtime says that nothing runs.
// (kubelet kubelet.go:SyncTerminatingPod)
func (s *terminator) step(ctx context.Context, d desired, usable Usable) (time.Duration, error) {
	s.endWaits()
	s.endParts(ctx, d)
	d, err := s.withRecordedPod(ctx, d)
	if err != nil {
		return s.killRetry(), err
	}
	if d.pod == nil {
		// Nothing was ever accepted, and the runtime has nothing.
		s.advance(stateInput{stopped: true})
		return 0, nil
	}
	observed, err := s.cfg.Runtime.PodStatus(ctx, s.id.UID)
	if err != nil {
		return s.killFailed(d, fmt.Errorf("observe: %w", err))
	}
	s.cfg.Prober.StopLivenessAndStartup(s.id.UID)
	before := s.look(ctx, d, observed, false)
	s.report(d, before, usable)
	if err := s.killAll(ctx, d, observed); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return s.killFailed(d, err)
	}
	stopped, err := s.observeStopped(ctx)
	if err != nil {
		return s.killFailed(d, err)
	}
	s.mem.setKillError("")
	s.killFailures = 0
	s.cfg.Prober.Remove(s.id.UID)
	r := s.look(ctx, d, stopped, true)
	r.pod = status.Terminated(d.pod, before.pod, r.pod, s.cfg.Clock.Now())
	s.advance(stateInput{stopped: true})
	s.report(d, r, usable)
	s.stopped = stopped
	s.wakeUp()
	return 0, nil
}

// withRecordedPod fills in the pod when no template was ever accepted: what the
// runtime recorded.
func (s *terminator) withRecordedPod(ctx context.Context, d desired) (desired, error) {
	if d.pod != nil {
		return d, nil
	}
	pod, err := s.cfg.Runtime.RecordedPod(ctx, s.id.UID)
	if err != nil {
		return d, fmt.Errorf("restore the pod from what was recorded: %w", err)
	}
	if pod == nil {
		return d, nil
	}
	if d.shown != nil {
		pod = withDeletion(pod, d.shown.DeletionTimestamp, d.shown.DeletionGracePeriodSeconds)
	}
	return s.mem.usePod(pod), nil
}

// killAll kills the pod with the grace period of its termination; one that is
// shortened meanwhile reaches the kills under way.
func (s *terminator) killAll(ctx context.Context, d desired, observed *plan.PodStatus) error {
	t := s.termination(d)
	request := t.Request(d.pod, observed, s.mem.shrinkGrace(t, d), s.resume)
	var err error
	begun := time.Now()
	attend(ctx, s.wake,
		func(ctx context.Context) { _, err = s.cfg.Executor.KillPod(ctx, request) },
		func(func()) {
			// A grace period that did not shrink shortens nothing.
			now := s.mem.peek()
			latest := s.mem.shrinkGrace(s.termination(now), now)
			s.cfg.Executor.Shorten(s.id.UID, latest.Seconds)
			s.cfg.Executor.NoteExits(ctx, s.id.UID)
			s.refresh(ctx, now, begun)
		})
	s.resume = s.stillUnderWay(s.resume)
	return err
}

// observeStopped reads the runtime again: a container that still runs is an
// error, whatever the runtime said to its kill.
func (s *terminator) observeStopped(ctx context.Context) (*plan.PodStatus, error) {
	observed, err := s.cfg.Runtime.PodStatus(ctx, s.id.UID)
	if err != nil {
		return nil, fmt.Errorf("observe after the kill: %w", err)
	}
	if names := running(observed); len(names) > 0 {
		return nil, fmt.Errorf("still running after the kill: %s", strings.Join(names, ", "))
	}
	return observed, nil
}

// running names the containers that run.
func running(observed *plan.PodStatus) []string {
	var names []string
	for _, c := range observed.Containers {
		if c.State == plan.ContainerRunning {
			names = append(names, c.Name)
		}
	}
	return names
}

// killFailed reports a kill that the runtime did not carry out; it is tried again.
func (s *terminator) killFailed(d desired, err error) (time.Duration, error) {
	s.mem.setKillError(err.Error())
	s.report(d, s.unseen(), s.currentUsable())
	s.warn(failedKillPodReason, fmt.Sprintf(failedKillPodMessage, err))
	return s.killRetry(), fmt.Errorf("kill pod: %w", err)
}
