// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"
)

// Forgotten is whether an entry is too old to count now. (Expired)
func (p BackoffPolicy) Forgotten(entry *Backoff, now Moment) bool {
	return p.Expired(entry.present(now), now.Wall)
}

// known is whether the times since boot of an entry count now.
func (b *Backoff) known(now Moment) bool {
	return b != nil && b.BootID != "" && b.BootID == now.BootID
}

// present returns the entry with its last restart by the wall clock of now, which may
// have been set since.
func (b *Backoff) present(now Moment) *Backoff {
	if !b.known(now) {
		return b
	}
	p := *b
	p.LastUpdate = now.Wall.Add(b.SinceBoot - now.SinceBoot)
	return &p
}

// exitInPresent returns what was observed with the exit that counts by the wall clock of
// now: as it was noted, or else between the last restart, which came before it, and now.
func (b *Backoff) exitInPresent(observed *PodStatus, name string, now Moment) *PodStatus {
	exited := newestExited(observed, name)
	if exited == nil || !b.known(now) {
		return observed
	}
	at := exited.FinishedAt
	switch last := b.present(now).LastUpdate; {
	case exited.ID == b.Exit:
		at = now.Wall.Add(b.Exited - now.SinceBoot)
	case at.Before(last) || at.After(now.Wall):
		at = last
	}
	changed := *observed
	changed.Containers = slices.Clone(observed.Containers)
	newestExited(&changed, name).FinishedAt = at
	return &changed
}

// noted returns the entry with what it and an exit are by the time since boot: a wall
// clock that is set later changes nothing then.
func (b *Backoff) noted(exit string, exitedAt time.Time, now Moment) *Backoff {
	if now.BootID == "" {
		return b
	}
	n := *b
	n.BootID = now.BootID
	n.SinceBoot = now.SinceBoot - max(0, now.Wall.Sub(b.LastUpdate))
	n.Exit, n.Exited = exit, now.SinceBoot-max(0, now.Wall.Sub(exitedAt))
	return &n
}
