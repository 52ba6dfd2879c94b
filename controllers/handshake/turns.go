// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"runtime"
	"slices"
	"sync"
)

const (
	// mostPending is how many handshakes may be under way. Each takes some 20 KiB.
	mostPending = 2000
	// mostRecognised is more than a cluster has API servers and the manager has replicas.
	mostRecognised = 64
	// oldestEvery is which turn of a source goes to its oldest handshake: the newest alone would keep
	// some waiting for ever.
	oldestEvery = 16
)

// turns decide which handshake is computed next.
type turns struct {
	mu      sync.Mutex
	pending int
	sources map[origin]*source
	// Recognised addresses have turns of their own: those of strangers take up none of them.
	strangers, known line
	// recognised are addresses, the latest first.
	recognised []string
}

// line is where sources wait for the same turns.
type line struct {
	// free are the turns that no handshake has now.
	free int
	// waiting are the sources with handshakes that wait, the next one first.
	waiting []*source
}

// origin is where a handshake comes from, as it is known when it begins.
type origin struct {
	address    string
	recognised bool
}

// source has the handshakes of one origin that are under way.
type source struct {
	origin
	line *line
	// pending are all of them, in order of arrival.
	pending []*conn
	// waiting are those that wait for a turn, in order of arrival; those that had one already come last.
	waiting []*conn
	// turns is how many turns it had.
	turns int
}

// newTurns leaves half of the processors to what is not asked by strangers.
func newTurns() *turns {
	atOnce := max(1, runtime.GOMAXPROCS(0)/2)
	return &turns{sources: map[origin]*source{}, strangers: line{free: atOnce}, known: line{free: atOnce}}
}

// arrive begins a handshake. When there are too many, the source with the most of them loses its oldest.
func (t *turns) arrive(c *conn, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := origin{address, slices.Contains(t.recognised, address)}
	s := t.sources[from]
	if s == nil {
		s = &source{origin: from, line: &t.strangers}
		if from.recognised {
			s.line = &t.known
		}
		t.sources[from] = s
	}
	c.source = s
	s.pending = append(s.pending, c)
	if t.pending++; t.pending <= mostPending {
		return
	}
	most := s
	for _, other := range t.sources {
		if other != s && len(other.pending) >= len(most.pending) {
			most = other
		}
	}
	evicted := most.pending[0]
	t.forget(evicted)
	evicted.cancel()
}

// depart ends a handshake.
func (t *turns) depart(c *conn) {
	t.leave(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(c)
}

func (t *turns) forget(c *conn) {
	s := c.source
	i := slices.Index(s.pending, c)
	if i < 0 {
		return // it was evicted
	}
	t.pending--
	if s.pending = slices.Delete(s.pending, i, i+1); len(s.pending) == 0 {
		delete(t.sources, s.origin)
	}
}

// enter waits for a turn of c until its time is over. Whoever calls it calls leave, also after an error.
func (t *turns) enter(c *conn) error {
	entered := make(chan struct{})
	t.mu.Lock()
	c.entered = entered
	s := c.source
	at := len(s.waiting)
	if first := slices.IndexFunc(s.waiting, func(c *conn) bool { return c.begun }); !c.begun && first >= 0 {
		at = first
	}
	if s.waiting = slices.Insert(s.waiting, at, c); len(s.waiting) == 1 {
		// Those who had no turn of late come before those who had.
		s.line.waiting = slices.Insert(s.line.waiting, 0, s)
	}
	s.line.next()
	t.mu.Unlock()
	select {
	case <-entered:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// leave ends the turn of c, or its wait for one.
func (t *turns) leave(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := c.source
	if c.hasTurn {
		c.hasTurn = false
		s.line.free++
		s.line.next()
	} else if i := slices.Index(s.waiting, c); i >= 0 {
		if s.waiting = slices.Delete(s.waiting, i, i+1); len(s.waiting) == 0 {
			s.line.waiting = slices.DeleteFunc(s.line.waiting, func(other *source) bool { return other == s })
		}
	}
}

// next gives free turns away, source by source.
func (l *line) next() {
	for l.free > 0 && len(l.waiting) > 0 {
		s := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		c := s.take()
		if len(s.waiting) > 0 {
			l.waiting = append(l.waiting, s)
		}
		l.free--
		c.begun, c.hasTurn = true, true
		close(c.entered)
	}
}

// take removes the handshake that is next from those that wait: one that had a turn already, since what
// is nearly done should be of use, or else the newest; at times the oldest.
func (s *source) take() *conn {
	i := len(s.waiting) - 1
	if s.turns++; s.turns%oldestEvery == 0 {
		i = 0
	}
	c := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return c
}

// recognise remembers an address as that of someone who has shown who he is.
func (t *turns) recognise(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.recognised, address); i >= 0 {
		t.recognised = slices.Delete(t.recognised, i, i+1)
	}
	t.recognised = slices.Insert(t.recognised, 0, address)
	t.recognised = t.recognised[:min(len(t.recognised), mostRecognised)]
}
