// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// stuckAfter is how long the overseer may take for one step before the shim counts
// as stuck. A step is at most two calls of the runtime (two minutes each) or requests
// to the API server (ten seconds each), all with a deadline, and takes the lock of
// the pool and of each worker's memory. It never waits for the disk, for a hook or
// for the end of a container: a slow node is no reason to kill its shim.
const stuckAfter = 10 * time.Minute

// progress is when the overseer last finished a step; liveness goes by it.
type progress struct {
	mu   sync.Mutex
	last time.Time
	// broken: the last look panicked. Its steps count for nothing until one look
	// comes to its end.
	broken bool
}

func newProgress() *progress { return &progress{last: time.Now()} }

// step notes that a step of a look has ended. Time is the process's own and does
// not jump.
func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.broken {
		p.last = time.Now()
	}
}

// look notes how a look has ended.
func (p *progress) look(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken = err != nil; !p.broken {
		p.last = time.Now()
	}
}

// check implements healthz.Checker.
func (p *progress) check(*http.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle := time.Since(p.last); idle > stuckAfter {
		return fmt.Errorf("no progress for %s", idle.Round(time.Second))
	}
	return nil
}
