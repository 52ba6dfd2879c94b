// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Moment is the present by the node's two clocks.
type Moment struct {
	// Wall is the wall clock's time, which may have been set.
	Wall time.Time
	// SinceBoot counts from the boot that BootID identifies.
	SinceBoot time.Duration
	BootID    string
}

// Left returns what is left of the grace period of a kill that was cut off, in
// seconds, rounded up: by the time since boot if the note has it, else by the wall
// clock, and never more than the kill was given. A phase that was cut off before
// the container surely knew of it has all its time again. Nothing of another boot
// still runs, and nothing of the time is left then.
func (p KillProgress) Left(now Moment) int64 {
	left := p.Ends().Sub(now.Wall)
	known := p.Note.BootID != "" && now.BootID != ""
	switch {
	case known && p.Note.BootID != now.BootID:
		left = 0
	case p.Note.Fresh > 0:
		return min(p.Note.Fresh, p.given())
	case known:
		left = p.Note.Ends - now.SinceBoot
	}
	return min(int64(math.Ceil(left.Seconds())), p.given())
}

// Spent returns how much of the grace period is over when so much of it is left, in
// seconds.
func (p KillProgress) Spent(left int64) int64 { return max(0, p.Record.Grace.Seconds-left) }

// HookOver reports whether the preStop hook, which had not ended when the kill was cut
// off, does not run again with so many seconds left: the kill was past it, or there is
// no time for it.
func (p KillProgress) HookOver(left int64) bool {
	rec := &p.Record
	return rec.PreStop != nil && rec.PreStop.Outcome == "" && (rec.Phase != v1alpha1.KillPhasePreStop || left <= 0)
}

// OfAnotherBoot returns a kill that a reboot has cut off: nothing of then can still
// run, so that its hook and its wait are over too.
func (p KillProgress) OfAnotherBoot() KillProgress {
	p.Record.Phase = v1alpha1.KillPhaseStopping
	return p
}

// given is how many seconds the phase of the record may take at most.
func (p KillProgress) given() int64 {
	rec := &p.Record
	switch {
	case rec.Grace.ShortenedToSeconds != nil:
		return *rec.Grace.ShortenedToSeconds
	case p.stopping():
		return *rec.StopTimeoutSeconds
	default:
		return rec.Grace.Seconds
	}
}

// Ends is when the phase that the record is in has to end, by the wall clock: a
// StopContainer's timeout counts, unless a shortening did.
func (p KillProgress) Ends() time.Time {
	rec := &p.Record
	switch {
	case p.stopping() && (rec.Grace.ShortenedFromSeconds == nil || rec.Grace.Deadline == nil):
		return rec.StopTime.Add(seconds(*rec.StopTimeoutSeconds))
	case rec.Grace.Deadline != nil:
		return rec.Grace.Deadline.Time
	default:
		return rec.StartTime.Add(seconds(rec.Grace.Seconds))
	}
}

func (p KillProgress) stopping() bool {
	rec := &p.Record
	return rec.Phase == v1alpha1.KillPhaseStopping && rec.StopTime != nil && rec.StopTimeoutSeconds != nil
}

// maxSeconds is a hundred years: more would overflow a Duration.
const maxSeconds = 100 * 365 * 24 * 3600

func seconds(n int64) time.Duration {
	return time.Duration(min(n, maxSeconds)) * time.Second
}
