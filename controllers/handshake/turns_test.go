// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

// oneTurn has a single turn for each line.
func oneTurn() *turns {
	return &turns{sources: map[origin]*source{}, strangers: line{free: 1}, known: line{free: 1}}
}

// begin has a handshake ask for its first turn.
func begin(t *testing.T, turns *turns, address string) *conn {
	t.Helper()
	c := &conn{turns: turns}
	c.ctx, c.cancel = context.WithCancel(t.Context())
	turns.arrive(c, address)
	proceed(c)
	return c
}

// proceed has it ask for another one.
func proceed(c *conn) {
	c.turns.leave(c)
	go func() { _ = c.turns.enter(c) }()
	synctest.Wait()
}

// Addresses take turns, the latest to come first, and of each the newest handshake is next, but at times
// the oldest.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := oneTurn()
		now := begin(t, turns, "z")
		first := begin(t, turns, "a")
		first.source.turns = oldestEvery - 4
		names := map[*conn]string{first: "a1"}
		for _, name := range []string{"a2", "a3", "a4", "a5", "b1", "b2"} {
			names[begin(t, turns, name[:1])] = name
		}
		var got []string
		for len(names) > 0 {
			turns.depart(now)
			for c, name := range names {
				if c.hasTurn {
					now = c
					got = append(got, name)
					delete(names, c)
				}
			}
		}
		if want := []string{"b2", "a5", "b1", "a4", "a3", "a1", "a2"}; !slices.Equal(got, want) {
			t.Errorf("order %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
		}
		if turns.depart(now); turns.pending != 0 || len(turns.sources) != 0 || turns.strangers.free != 1 {
			t.Errorf("afterwards %d are pending from %d sources, %d turns are free", turns.pending, len(turns.sources), turns.strangers.free)
		}
	})
}

// What is half done goes before what came later.
func TestBegunFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := oneTurn()
		half := begin(t, turns, "a")
		turns.leave(half)
		other := begin(t, turns, "b")
		proceed(half)
		begin(t, turns, "a")
		turns.depart(other)
		if !half.hasTurn {
			t.Error("a new handshake has the turn")
		}
	})
}

// Strangers take no turn from an address that was recognised, and it is forgotten after many others.
func TestRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := oneTurn()
		turns.recognise("api")
		begin(t, turns, "a")
		if !begin(t, turns, "api").hasTurn {
			t.Error("a recognised address waits for a stranger")
		}
		for i := range mostRecognised {
			turns.recognise(string(rune('A' + i)))
		}
		if begin(t, turns, "api").source.recognised {
			t.Errorf("%d addresses are recognised", mostRecognised+1)
		}
	})
}

// Beyond the bound the address with the most handshakes loses its oldest, whoever came last.
func TestMostPending(t *testing.T) {
	turns := oneTurn()
	arrive := func(address string) *conn {
		c := &conn{turns: turns}
		c.ctx, c.cancel = context.WithCancel(t.Context())
		turns.arrive(c, address)
		return c
	}
	victim := arrive("api")
	var flood []*conn
	for range mostPending - 1 {
		flood = append(flood, arrive("a"))
	}
	later := arrive("b")
	if flood[0].ctx.Err() == nil || flood[1].ctx.Err() != nil || victim.ctx.Err() != nil || later.ctx.Err() != nil {
		t.Errorf("ended: the oldest of the flood %t, the next one %t, the victims %t and %t",
			flood[0].ctx.Err() != nil, flood[1].ctx.Err() != nil, victim.ctx.Err() != nil, later.ctx.Err() != nil)
	}
	if turns.depart(flood[0]); turns.pending != mostPending {
		t.Errorf("%d are pending", turns.pending)
	}
}

// pipes accepts the ends of pipes.
type pipes struct {
	net.Listener
	ends chan net.Conn
}

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.ends
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error { close(p.ends); return nil }

// A client that says nothing loses its connection, and so do all when the listener closes.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{ends: make(chan net.Conn)}
		l := listen(t.Context(), logr.Discard(), p, &tls.Config{MinVersion: tls.VersionTLS12})
		for _, want := range []time.Duration{timeout, time.Second} {
			ours, theirs := net.Pipe()
			p.ends <- theirs
			if want < timeout {
				time.AfterFunc(want, func() { _ = l.Close() })
			}
			began := time.Now()
			if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != want {
				t.Errorf("the connection ended with %v after %s, want after %s", err, time.Since(began), want)
			}
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accepted after the end: %v", err)
		}
	})
}
