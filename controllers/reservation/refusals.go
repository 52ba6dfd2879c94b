// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"slices"
	"time"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// firstRetry is when what was not granted is asked for again, then twice as late each time, up to
// lastRetry. refusalKept is how long after that a refusal is remembered, and maxRefusals how many
// of a node are: those whose time comes last.
const (
	firstRetry  = 5 * time.Minute
	lastRetry   = time.Hour
	refusalKept = lastRetry
	maxRefusals = 32
)

// refusal is an amount that a node did not grant. It belongs to the node: another NodeWorkload that
// asks for as much has the same answer to expect, also one of a new name.
type refusal struct {
	asked fleet.Amount
	// message is the kubelet's, or the API server's.
	message string
	// times is how often it was refused, and again when it is asked for again.
	times int
	again time.Time
}

// covers reports whether who asks for an amount asks for about as much as what was refused, where
// the node has granted so much. What lies less than a quarter of the excess below counts, too: or
// each of a row of ever smaller ones would be tried.
func (r *refusal) covers(asked, granted fleet.Amount) bool {
	exceeds := false
	for _, d := range [][3]int64{
		{asked.MilliCPU, r.asked.MilliCPU, granted.MilliCPU},
		{asked.Memory, r.asked.Memory, granted.Memory},
	} {
		excess := d[1] - d[2]
		if excess <= 0 {
			continue
		}
		exceeds = true
		if d[0] < d[1] && d[0] <= d[1]-excess/4 {
			return false
		}
	}
	return exceeds
}

// refused reports whether an amount is not asked for at a time, because as much was refused.
func (r retries) refused(asked, granted fleet.Amount, now time.Time) bool {
	return slices.ContainsFunc(r.refusals, func(known refusal) bool { return now.Before(known.again) && known.covers(asked, granted) })
}

// refuse remembers that an amount was not granted, beside what was. The back-off continues of what
// was refused before and is as much, or more.
func (r *retries) refuse(asked fleet.Amount, message string, granted fleet.Amount, now time.Time) {
	next := refusal{asked: asked, message: message}
	for _, known := range r.refusals {
		if known.covers(asked, granted) || (&refusal{asked: asked}).covers(known.asked, granted) {
			next.times = max(next.times, known.times)
		}
	}
	next.again = now.Add(min(firstRetry<<min(next.times, 10), lastRetry))
	next.times++
	r.refusals = slices.DeleteFunc(r.refusals, func(known refusal) bool { return next.asked.Within(known.asked) })
	for i := range r.refusals {
		if known := &r.refusals[i]; known.covers(asked, granted) { // it is smaller, and stands for both
			known.times, known.again = next.times, next.again
			return
		}
	}
	r.refusals = append(r.refusals, next)
}

// forget drops what is long ago, and too many.
func (r *retries) forget(now time.Time) {
	r.refusals = slices.DeleteFunc(r.refusals, func(known refusal) bool { return now.Sub(known.again) >= refusalKept })
	for len(r.refusals) > maxRefusals {
		first := 0
		for i := range r.refusals {
			if r.refusals[i].again.Before(r.refusals[first].again) {
				first = i
			}
		}
		r.refusals = slices.Delete(r.refusals, first, first+1)
	}
}
