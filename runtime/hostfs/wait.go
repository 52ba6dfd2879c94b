// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/panics"
)

// DefaultPatience is how long a file system may take to answer one call. It is
// far more than a healthy network file system needs, and less than a person waits.
const DefaultPatience = 10 * time.Second

// ErrHung says that a file system did not answer in time.
var ErrHung = errors.New("the file system does not answer")

// Patience bounds the wait for calls that a network file system may never answer.
// Such a call cannot be cancelled: its thread stays in the kernel until the file
// system answers or is aborted, so nothing can wait for it. There is at most one
// such call for each key.
type Patience struct {
	limit time.Duration
	mu    sync.Mutex
	calls map[string]*call // under way, by key
}

type call struct {
	done chan struct{} // closed at its end
	late bool          // it was waited for as long as is allowed
}

// NewPatience returns a Patience with a limit for each wait.
func NewPatience(limit time.Duration) *Patience {
	return &Patience{limit: limit, calls: map[string]*call{}}
}

// Do makes a call and waits for it: for the limit, or until ctx is done. The error
// then is ErrHung or ctx's cause. A panic of the call is its error. While an earlier
// call of the same key is under way, that one is waited for first. key is the path
// that the call is about.
func (p *Patience) Do(ctx context.Context, key string, call func() error) error {
	_, err := Ask(ctx, p, key, func() (struct{}, error) { return struct{}{}, call() }, func(struct{}) {})
	return err
}

// Ask is Do for a call with a result; drop gets a result that came too late.
func Ask[T any](ctx context.Context, p *Patience, key string, call func() (T, error), drop func(T)) (T, error) {
	var none T
	timer := time.NewTimer(p.limit)
	defer timer.Stop()
	err := p.begin(ctx, timer, key)
	if err != nil {
		return none, err
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer)
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		defer p.end(key)
		var value T
		err := panics.Contain(logr.FromContextOrDiscard(ctx), "a call about "+key, func() (err error) {
			value, err = call()
			return err
		})
		select {
		case answers <- answer{value, err}:
		case <-gone:
			if err == nil {
				drop(value)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		return none, p.late(key)
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// begin waits for the call of the same key and takes its place.
func (p *Patience) begin(ctx context.Context, timer *time.Timer, key string) error {
	for {
		p.mu.Lock()
		before, busy := p.calls[key]
		if !busy {
			p.calls[key] = &call{done: make(chan struct{})}
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		select {
		case <-before.done:
		case <-timer.C:
			return p.late(key)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *Patience) end(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.calls[key].done)
	delete(p.calls, key)
}

func (p *Patience) late(key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if call := p.calls[key]; call != nil {
		call.late = true
	}
	return fmt.Errorf("%s: no answer within %v: %w", key, p.limit, ErrHung)
}

// hangs says that a call about something above or below a path was waited for in vain
// and has not ended.
func (p *Patience) hangs(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, call := range p.calls {
		if call.late && (isBelow(key, path) || isBelow(path, key)) {
			return true
		}
	}
	return false
}
