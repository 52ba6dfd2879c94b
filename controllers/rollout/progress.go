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
		case !n.Desired && n.Revision == in.Update:
			// It is leaving, or only tolerated: nothing waits for it.
		default:
			t.Left++
			t.Complete = false
		}
	}
	t.Complete = t.Complete && t.Available > 0
	return t
}

// Progress is how far a roll-out came, and since when it has not come further. Nodes
// that come and go make none: only more available nodes than ever before do.
type Progress struct {
	// Generation of the spec that is rolled out.
	Generation int64
	// Most is how many nodes were available with it at once.
	Most int
	// Done: nothing was left at one time, and it reached a node. What happens to a node later is no matter of the
	// roll-out.
	Done bool
	// Since is when the last progress was made.
	Since time.Time
}

// Next is the progress with what a tally says. A roll-out that is paused does not get
// older.
func (p Progress) Next(generation int64, t Tally, paused bool, now time.Time) Progress {
	if p.Generation != generation || p.Since.IsZero() {
		p = Progress{Generation: generation, Since: now}
	}
	if t.Available > p.Most || t.Left == 0 || paused {
		p.Most, p.Since = max(p.Most, t.Available), now
	}
	p.Done = p.Done || t.Left == 0 && t.Available > 0 && !paused
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
