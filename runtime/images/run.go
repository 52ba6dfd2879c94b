// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// interval is how often the records are compared with the images of the runtime. (kubelet
// kubelet.go:ImageGCPeriod)
const interval = 5 * time.Minute

// Run keeps the records as the runtime's images are, until ctx is done.
func (m *Manager) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := m.tidy(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to compare the records of image pulls with the images; retrying", "in", interval.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// tidy reads and writes what could not be, settles what was cut off, and learns which images are
// preloaded and which are gone.
func (m *Manager) tidy(ctx context.Context) error {
	if err := m.readAgain(ctx); err != nil {
		return err
	}
	m.settle(ctx)
	if err := m.forgetGone(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	unwritten := slices.Collect(maps.Keys(m.unwritten))
	m.mu.Unlock()
	for _, key := range unwritten { // one that cannot be written does not hold up the others
		m.write(ctx, key)
	}
	return nil
}

// readAgain reads the records that could not be read.
func (m *Manager) readAgain(ctx context.Context) error {
	m.mu.Lock()
	unread := m.unread
	m.mu.Unlock()
	if !unread {
		return nil
	}
	read, err := hostfs.Ask(ctx, m.patience, m.disk.root, func() (*memory, error) { return readAll(m.disk) }, func(*memory) {})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unread { // a pull or Run may have been first
		read.learn(m.memory)
		m.memory = read
		m.doubt()
	}
	return nil
}

// forgetGone forgets the images that the runtime does not have any more.
func (m *Manager) forgetGone(ctx context.Context) error {
	if m.runtime == nil {
		return nil
	}
	asked := time.Now()
	all, err := m.look(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	files := m.prune(all, asked)
	m.mu.Unlock()
	m.write(ctx, append(files, preloadedFile)...)
	return nil
}
