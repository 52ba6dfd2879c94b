// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/managedworkload/managedworkload/runtime/panics"
)

// Logind is a connection to logind.
type Logind interface {
	// InhibitDelay is how long a shutdown waits for locks at most.
	InhibitDelay(context.Context) (time.Duration, error)
	// Reload makes logind read its configuration.
	Reload(context.Context) error
	// Preparing reports whether the node shuts down.
	Preparing(context.Context) (bool, error)
	// Inhibit takes a lock, which Close releases. It outlives the connection.
	Inhibit(context.Context) (io.Closer, error)
	// Events end when the connection is lost.
	Events() <-chan Event
	Close() error
}

// Event is what logind says.
type Event int

// The events of logind.
const (
	// Shutdown: the node shuts down.
	Shutdown Event = iota
	// Cancelled: it does not, after all.
	Cancelled
	// Restarted: another logind answers now.
	Restarted
)

// reconnectInterval is that of the kubelet. (kubelet nodeshutdown_manager_linux.go)
const reconnectInterval = time.Second

var errLost = errors.New("the connection to logind was lost")

// Run watches for the node's shutdown until the context is done.
func (m *Manager) Run(ctx context.Context) error {
	defer m.hold(nil)
	defer m.stop()
	last := ""
	for {
		err := panics.Contain(m.cfg.Log, "shutdown", func() error { return m.session(ctx) })
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && err.Error() != last {
			last = err.Error()
			m.cfg.Log.Info("Cannot watch for the node's shutdown; retrying", "reason", last)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnectInterval):
		}
	}
}

// session follows logind on one connection, until that is lost.
func (m *Manager) session(ctx context.Context) (err error) {
	bus, err := m.cfg.Dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to logind: %w", err)
	}
	defer func() { err = errors.Join(err, bus.Close()) }()
	if err := m.resume(ctx, bus); err != nil {
		return err
	}
	m.cfg.Log.V(1).Info("Watching for the node's shutdown")
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-bus.Events():
			if !open {
				return errLost
			}
			if err := m.handle(ctx, bus, event); err != nil {
				return err
			}
		}
	}
}

func (m *Manager) handle(ctx context.Context, bus Logind, event Event) error {
	switch event {
	case Shutdown:
		m.begin(ctx)
		return nil
	case Cancelled, Restarted:
		return m.resume(ctx, bus)
	}
	return nil
}

// resume takes over what logind says now, which a signal may have said while there was no
// connection, and holds the next shutdown up.
func (m *Manager) resume(ctx context.Context, bus Logind) error {
	preparing, err := bus.Preparing(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("ask whether the node shuts down: %w", err)
	case preparing:
		m.begin(ctx) // logind gives no lock now
		return nil
	}
	m.cancelled()
	if err := m.raiseDelay(ctx, bus); err != nil {
		// A part of the time is better than none.
		m.cfg.Log.Error(err, "The workloads may not have all their time at a shutdown of the node")
	}
	lock, err := bus.Inhibit(ctx)
	if err != nil {
		return fmt.Errorf("take the inhibitor lock: %w", err)
	}
	m.hold(lock)
	return nil
}
