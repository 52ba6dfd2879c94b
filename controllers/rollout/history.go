// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
)

// Revision is what a decision needs to know of a ManagedWorkloadRevision.
type Revision struct {
	// Hash identifies the user's template.
	Hash string
	// Number counts roll-outs.
	Number int64
	// RolledOut: all nodes were available with it since it got its number.
	RolledOut bool
}

// Current is the revision that nodes keep, or get when they are new, where the update
// may not reach. shares counts nodes by their revision.
//
// It is the update once that was rolled out. Otherwise it is the one that more than half of
// the nodes have, unless that is the update on its way; then the one that was rolled out
// last; and as long as none was, the one that most nodes have, then the one before the
// update.
func Current(revisions []Revision, update string, shares map[string]int) string {
	all := 0
	for _, n := range shares {
		all += n
	}
	var rolledOut, most Revision
	majority := ""
	for _, r := range revisions {
		if r.Hash == update && r.RolledOut {
			return update
		}
		if r.Hash != update && 2*shares[r.Hash] > all {
			majority = r.Hash
		}
		if r.RolledOut && r.Number > rolledOut.Number {
			rolledOut = r
		}
		if cmp.Or(cmp.Compare(shares[r.Hash], shares[most.Hash]), cmp.Compare(before(r, update), before(most, update)), cmp.Compare(r.Number, most.Number)) > 0 {
			most = r
		}
	}
	return cmp.Or(majority, rolledOut.Hash, most.Hash, update)
}

// before is 1 for a revision that is not the update.
func before(r Revision, update string) int {
	if r.Hash == update || r.Hash == "" {
		return 0
	}
	return 1
}

// StaysRolledOut reports whether a revision that gets a new number keeps its mark: it was
// rolled out last, and no other is current since.
func StaysRolledOut(revisions []Revision, update string) bool {
	last := Revision{}
	for _, r := range revisions {
		if r.RolledOut && r.Number > last.Number {
			last = r
		}
	}
	return last.Hash == update
}

// Number is the number that the update revision should have: the highest one. It
// changes when a template is rolled out again.
func Number(revisions []Revision, update string) int64 {
	var highest, own int64
	for _, r := range revisions {
		if r.Hash == update {
			own = r.Number
		} else {
			highest = max(highest, r.Number)
		}
	}
	if own > highest {
		return own
	}
	return highest + 1
}

// Expired are the revisions above the history limit, the oldest first. Those in use
// count for nothing and stay. (kubernetes
// pkg/controller/daemon/update.go:cleanupHistory)
func Expired(revisions []Revision, inUse map[string]bool, limit int) []Revision {
	var unused []Revision
	for _, r := range revisions {
		if !inUse[r.Hash] {
			unused = append(unused, r)
		}
	}
	slices.SortFunc(unused, func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
	return unused[:max(len(unused)-limit, 0)]
}
