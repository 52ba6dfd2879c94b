// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var handshakeMistakes = []mistake{
	{"all handshakes are computed at once", "newTurns",
		"atOnce := max(1, runtime.GOMAXPROCS(0)/2)", "atOnce := 1000 * runtime.GOMAXPROCS(0)"},
	{"a client that is waited for keeps its turn", "conn.Read",
		"c.turns.leave(c)", "if c.source == nil {\n\t\tc.turns.leave(c)\n\t}"},
	{"the API server waits in line with strangers", "turns.arrive",
		"s.line = &t.known", "s.line = &t.strangers"},
	{"one address has all turns until none of its handshakes waits", "line.next",
		"l.waiting = append(l.waiting, s)", "l.waiting = slices.Insert(l.waiting, 0, s)"},
	{"a new address waits behind those that had turns", "turns.enter",
		"slices.Insert(s.line.waiting, 0, s)", "append(s.line.waiting, s)"},
	{"what is half done waits behind what comes later", "turns.enter",
		"!c.begun && first >= 0", "false && first >= 0"},
	{"the oldest handshake of an address waits for ever", "source.take",
		"s.turns%oldestEvery == 0", "s.turns == 0"},
	{"too many handshakes end the newest", "turns.arrive",
		"evicted := most.pending[0]", "evicted := c"},
	{"a victim's address loses its handshake to a flood", "turns.arrive",
		"len(other.pending) >= len(most.pending)", "len(other.pending) <= len(most.pending)"},
	{"a silent client stays", "listener.handshake",
		"context.WithTimeout(l.ctx, timeout)", "context.WithTimeout(l.ctx, 1000*timeout)"},
}
