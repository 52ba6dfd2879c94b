// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inject makes faults on a local stack and heals them.
package inject

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// supervisorPeriod is how often components are looked at.
const supervisorPeriod = 200 * time.Millisecond

// readyPatience is how long a service may take to be ready on a busy machine, with
// the faults that hit it meanwhile.
const readyPatience = 3 * time.Minute

// Service is a component that is started again when it ends, as systemd or a
// kubelet would.
type Service struct {
	*localstack.Component
	// Name is that of the component in reports.
	Name string

	mu sync.Mutex // held while a fault keeps it down
}

// Supervise starts the service again whenever it has ended, until the context is
// done.
func (s *Service) Supervise(ctx context.Context) {
	ticker := time.NewTicker(supervisorPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.mu.TryLock() {
			if !s.Running() {
				_ = s.Launch() // tried again
			}
			s.mu.Unlock()
		}
	}
}

// KillFor kills the service, keeps it down for a time, and waits until it is
// ready again.
func (s *Service) KillFor(ctx context.Context, down time.Duration) error {
	if err := s.whileDown(ctx, func() error { return sleep(ctx, down) }); err != nil {
		return err
	}
	return s.AwaitReady(ctx)
}

// whileDown kills the service, does something, and launches it.
func (s *Service) whileDown(ctx context.Context, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Kill(ctx); err != nil {
		return err
	}
	return errors.Join(do(), s.Launch())
}

// AwaitReady waits until the service is ready; one that ends before is started
// again, by its supervisor or by the fault that keeps it down.
func (s *Service) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for {
		err := s.WaitReady(ctx)
		if err == nil || sleep(ctx, 2*supervisorPeriod) != nil {
			return err
		}
	}
}

// StopFor stops the service by SIGSTOP for a time.
func (s *Service) StopFor(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(sleep(ctx, d), s.Signal(syscall.SIGCONT))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
