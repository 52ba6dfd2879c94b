// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// Wait is since when nodes wait for one reason.
type Wait struct {
	Since time.Time
	// Before: they waited already when it was looked at first, at Since.
	Before bool
}

// Waits are since when nodes wait, by why. What one node waits for, and then another, is one
// wait.
type Waits map[Reason]Wait

// Next are the waits when the reasons are those that stand in waiting. Where nothing is
// known (nil) and began says that the roll-out began earlier, so did the waits.
func (w Waits) Next(waiting map[Reason]int, began bool, now time.Time) Waits {
	next := make(Waits, len(waiting))
	for reason := range waiting {
		if known, ok := w[reason]; ok {
			next[reason] = known
		} else {
			next[reason] = Wait{Since: now, Before: w == nil && began}
		}
	}
	return next
}

// String says since when: "since 2026-03-14T09:26:53Z"; "" if that is not known.
func (w Wait) String() string {
	at := w.Since.UTC().Format(time.RFC3339)
	switch {
	case w.Since.IsZero():
		return ""
	case w.Before:
		return "since before " + at
	}
	return "since " + at
}
