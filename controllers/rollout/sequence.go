// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
)

// Sequence is a roll-out of many batches, each of which is what Next decides. It does not
// look at all nodes for each: of those that wait for nothing but their turn, only the next
// ones matter.
type Sequence struct {
	in   *Input
	kept []bool
	// rank is the place of a node in the order in which available nodes are changed.
	rank []int
	// queue are the nodes that wait for their turn, by rank, and active all others that a
	// batch depends on.
	queue, active []int
	// looked is how many nodes batches looked at.
	looked int
}

// NewSequence begins a roll-out. Time passes, and nodes change, in the input; Changed has to
// be called for the latter.
func NewSequence(in *Input) *Sequence {
	s := &Sequence{in: in, kept: in.partition(), rank: make([]int, len(in.Nodes))}
	all := make([]int, len(in.Nodes))
	for i := range all {
		all[i] = i
	}
	for rank, i := range in.lastFirst(all) {
		s.rank[i] = rank
	}
	for i := range in.Nodes {
		s.Changed(i)
	}
	return s
}

// inTurn reports whether a node waits for nothing but its turn: it takes up no budget before,
// also later.
func (s *Sequence) inTurn(i int) bool {
	n := &s.in.Nodes[i]
	_, how := s.in.judge(n, s.kept[i])
	return how == urgencyUp && !n.counts(&s.in.Strategy, s.in.Update, s.in.Now)
}

// done reports whether a batch depends on a node no more: it is available with what it is to
// have, or with what it keeps, and takes up no budget.
func (s *Sequence) done(i int) bool {
	n := &s.in.Nodes[i]
	_, how := s.in.judge(n, s.kept[i])
	return how == urgencies && n.Available(&s.in.Strategy, s.in.Now) && !n.counts(&s.in.Strategy, s.in.Update, s.in.Now)
}

// Changed notes that a node has changed, which is neither queued nor active.
func (s *Sequence) Changed(i int) {
	switch {
	case s.done(i):
	case s.inTurn(i):
		at, _ := slices.BinarySearchFunc(s.queue, s.rank[i], func(other, rank int) int { return cmp.Compare(s.rank[other], rank) })
		s.queue = slices.Insert(s.queue, at, i)
	default:
		s.active = append(s.active, i)
	}
}

// Next is the next batch, without reasons to wait. Its nodes are no part of the sequence
// until Changed was called for them.
func (s *Sequence) Next() Batch {
	at := slices.Concat(s.active, s.queue[:min(len(s.queue), min(s.in.Strategy.MaxUnavailable, MaxBatch)+1)])
	some := *s.in
	some.Nodes, some.kept = make([]Node, len(at)), make([]bool, len(at))
	for i, node := range at {
		some.Nodes[i], some.kept[i] = s.in.Nodes[node], s.kept[node]
	}
	s.looked += len(at)
	b := Next(&some)
	taken := make(map[int]bool, len(b.Changes))
	for i := range b.Changes {
		b.Changes[i].Node = at[b.Changes[i].Node]
		taken[b.Changes[i].Node] = true
	}
	s.forget(taken)
	b.Waiting = nil
	return b
}

// forget takes nodes away. Those of the queue are among its first.
func (s *Sequence) forget(taken map[int]bool) {
	if len(taken) == 0 {
		return
	}
	is := func(i int) bool { return taken[i] }
	s.active = slices.DeleteFunc(s.active, is)
	for len(s.queue) > 0 && taken[s.queue[0]] {
		s.queue = s.queue[1:]
	}
}
