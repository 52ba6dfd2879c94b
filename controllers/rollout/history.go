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
// may not reach: the one that was rolled out last. As long as none was, it is the one
// that most nodes have beside the update, then the one before the update.
// share counts nodes by their revision.
func Current(revisions []Revision, update string, share map[string]int) string {
	best, found := Revision{}, false
	better := func(a, b Revision) bool {
		switch {
		case a.RolledOut != b.RolledOut:
			return a.RolledOut
		case a.RolledOut:
			return a.Number > b.Number
		}
		return cmp.Or(cmp.Compare(share[a.Hash], share[b.Hash]), cmp.Compare(a.Number, b.Number)) > 0
	}
	for _, r := range revisions {
		if r.Hash == update && !r.RolledOut {
			continue
		}
		if !found || better(r, best) {
			best, found = r, true
		}
	}
	if !found {
		return update
	}
	return best.Hash
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
