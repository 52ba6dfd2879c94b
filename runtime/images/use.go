// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"maps"
	"time"
)

// aboutToUse is for how long before a collection asks what is used a start counts that has
// decided to use an image: by then its container has it, or its workload names it.
const aboutToUse = 10 * time.Second

// uses are the images that starts have decided to use, and those that are being removed. It
// is guarded by the manager's lock.
type uses struct {
	since    map[string]time.Time
	removing map[string]chan struct{} // closed when the removal has ended
}

func newUses() uses { return uses{map[string]time.Time{}, map[string]chan struct{}{}} }

// Use notes that a start uses an image that the runtime has as ref, so that it is not removed.
// It is false if a removal was under way, which it waits for: the image may be gone.
func (a *Access) Use(ctx context.Context, ref string) (there bool, err error) {
	m := a.m
	m.mu.Lock()
	m.uses.since[ref] = time.Now()
	removal := m.uses.removing[ref]
	m.mu.Unlock()
	if removal == nil {
		return true, nil
	}
	select {
	case <-removal:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// claim lets an image be removed of which was asked whether it is used; false if a start has
// decided to use it since. release is called when it is gone or stays.
func (m *Manager) claim(ref string, asked time.Time) (release func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := asked.Add(-aboutToUse)
	maps.DeleteFunc(m.uses.since, func(_ string, since time.Time) bool { return !since.After(counts) })
	if _, used := m.uses.since[ref]; used {
		return nil, false
	}
	done := make(chan struct{})
	m.uses.removing[ref] = done
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.uses.removing, ref)
		close(done)
	}, true
}
