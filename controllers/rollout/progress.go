// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"
)

// DefaultProgressDeadline is how long a roll-out may be without progress unless the spec
// says so: a Deployment's default.
const DefaultProgressDeadline = 10 * time.Minute

// Tally is how far a roll-out is.
type Tally struct {
	// Available is how many nodes are available with the update revision.
	Available int
	// Left is how many nodes the roll-out still has to reach or to see available: those
	// whose shim responds and that no person holds.
	Left int
	// Complete: all nodes whose shim responds are available with the update revision.
	Complete bool
}

// Count says how far the roll-out is that a batch belongs to.
func Count(in *Input, b *Batch) Tally {
	t := Tally{Complete: true}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		switch {
		case !n.Desired && !n.Present:
		case n.Updated(in.Update) && n.Available(&in.Strategy, in.Now):
			t.Available++
		case !n.Responds:
		case b.Waiting[i].Holds():
			t.Complete = false
		case !n.Desired && (n.Ending || n.Revision == in.Update && n.settled()):
			// It is leaving, or only tolerated: it needs not be available.
		default:
			t.Left++
			t.Complete = false
		}
	}
	t.Complete = t.Complete && t.Available > 0
	return t
}

// Progress is how far a roll-out came, and since when it has not come further. Nodes
// that come and go make none: only more available nodes, or fewer left, than ever before
// do.
type Progress struct {
	// Revision is what is rolled out, and Generation that of the spec.
	Revision   string
	Generation int64
	// Most is how many nodes were available with it at once, and Fewest how few were left.
	Most, Fewest int
	// Done: nothing was left at one time, and it reached a node. What happens to a node later
	// is no matter of the roll-out.
	Done bool
	// Since is when the last progress was made.
	Since time.Time
}

// State is what a progress is judged by.
type State struct {
	// Revision identifies the roll-out, and RolledOut says that it was complete before.
	Revision   string
	RolledOut  bool
	Generation int64
	Tally      Tally
	Paused     bool
}

// Next is the progress in a state. A roll-out that is paused, or that waits for nothing, does
// not get older.
func (p Progress) Next(s *State, now time.Time) Progress {
	t := s.Tally
	if p.Revision != s.Revision || p.Generation != s.Generation || p.Since.IsZero() {
		p = Progress{Revision: s.Revision, Generation: s.Generation, Most: t.Available, Fewest: t.Left, Done: s.RolledOut, Since: now}
	}
	waited := p.Fewest > 0
	if t.Available > p.Most || t.Left < p.Fewest || t.Left == 0 || !waited || s.Paused {
		p.Since = now
		p.Most, p.Fewest = max(p.Most, t.Available), t.Left
	}
	p.Done = p.Done || t.Left == 0 && t.Available > 0 && !s.Paused
	return p
}

// Left is how much of the deadline is left, 0 when it is over. A roll-out that is done has
// all of it.
func (p Progress) Left(deadline time.Duration, now time.Time) time.Duration {
	if p.Done {
		return deadline
	}
	return max(p.Since.Add(deadline).Sub(now), 0)
}
