// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"sync"
	"time"
)

const (
	// parallelPulls bounds the pulls at one time.
	parallelPulls = 4
	// pullPatience is how long a namespace without a pull waits for those of others: one that hangs
	// may take hours.
	pullPatience = 30 * time.Second
)

// pullRoom bounds the pulls at one time. A namespace whose pulls hang keeps none of another one
// waiting for long.
type pullRoom struct {
	places int

	mu sync.Mutex
	// pulling is how many pulls are under way, by namespace and in all.
	pulling map[string]int
	total   int
	// left is closed, and replaced, when a pull has ended.
	left chan struct{}
}

func newPullRoom(places int) *pullRoom {
	return &pullRoom{places: places, pulling: map[string]int{}, left: make(chan struct{})}
}

// enter waits for a place. leave gives it back; the error is ctx's.
func (r *pullRoom) enter(ctx context.Context, namespace string) (leave func(), err error) {
	patience := time.NewTimer(pullPatience)
	defer patience.Stop()
	for waited := false; ; {
		left, entered := r.tryEnter(namespace, waited)
		if entered {
			return func() { r.leave(namespace) }, nil
		}
		select {
		case <-left:
		case <-patience.C:
			waited = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryEnter takes a place if there is one, or, after the wait, if the namespace has none. Otherwise it
// is tried again when left is closed.
func (r *pullRoom) tryEnter(namespace string, waited bool) (left <-chan struct{}, entered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total >= r.places && (!waited || r.pulling[namespace] > 0 || r.places == 1) {
		return r.left, false
	}
	r.pulling[namespace]++
	r.total++
	return nil, true
}

func (r *pullRoom) leave(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total--
	if r.pulling[namespace]--; r.pulling[namespace] == 0 {
		delete(r.pulling, namespace)
	}
	close(r.left)
	r.left = make(chan struct{})
}
