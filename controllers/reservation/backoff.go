// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// forbearance is how long a resize is asked for that the kubelet does not grant: the scheduler
// counts what is asked for, so that the node takes no Pods meanwhile. firstRetry is when what was
// not granted is asked for again, then twice as late each time, up to lastRetry.
const (
	forbearance = 5 * time.Minute
	firstRetry  = 5 * time.Minute
	lastRetry   = time.Hour
)

// retries are what a node did not grant. They are not changed once they are made.
//
//	asked for --not granted for 5 min--> denied --its time, or less to ask for--> trial
//	trial --granted--> asked for        trial --not granted--> denied, for twice as long
type retries struct {
	// since is since when the kubelet does not grant what is asked for; zero: it does.
	since time.Time
	// denied are the NodeWorkloads that are not asked for. They are known by name: one that is
	// deleted and made again under its name is no new one.
	denied map[types.NamespacedName]denial
	// lack is what would be remembered of those that the kubelet does not grant now.
	lack map[types.NamespacedName]denial
	// trial is the one of them that is asked for now, the zero name for none: two at once might be
	// too much although one is not.
	trial types.NamespacedName
}

// denial is what is remembered of one that was not granted.
type denial struct {
	// asked is what the Pod requested with it.
	asked fleet.Amount
	// message is the kubelet's, or the API server's.
	message string
	// times is how often it was denied, and again when it is asked for again.
	times int
	again time.Time
	// gone: there is none of that name, or it has ended.
	gone bool
}

// none is the name of no NodeWorkload.
var none types.NamespacedName

func (r retries) has(key types.NamespacedName) bool { _, denied := r.denied[key]; return denied }

// wait reports whether a NodeWorkload is not asked for now.
func (r retries) wait(key types.NamespacedName) bool { return r.has(key) && r.trial != key }

// learn is what is remembered after the kubelet's answer.
func (f facts) learn() retries {
	f.retries = f.retries.of(f.shares, f.now)
	if f.refused != "" && f.retries.trial != none { // or nothing else would be tried
		f.retries.deny(f.retries.trial, decide(f).want, f.refused, f.now)
		f.retries.trial = none
	}
	if f.pod == nil {
		f.retries.since = time.Time{}
	}
	if f.pod == nil || !f.pod.Answered {
		return f.retries
	}
	settled := f.pod.Asked == decide(f).want
	if f.pod.Pending.Reason == "" {
		f.retries.since, f.retries.lack = time.Time{}, nil
		if settled {
			delete(f.retries.denied, f.retries.trial) // granted
			f.retries.trial = f.due()
		}
		return f.retries
	}
	if f.retries.since.IsZero() {
		f.retries.since = f.now
	}
	switch {
	case f.now.Sub(f.retries.since) >= forbearance: // the youngest, as decide counts
		for _, key := range decide(f).lack {
			f.retries.deny(key, f.pod.Asked, f.pod.Pending.Message, f.now)
		}
		f.retries.since, f.retries.trial = time.Time{}, none
	case f.retries.trial != none && settled:
		f.retries.deny(f.retries.trial, f.pod.Asked, f.pod.Pending.Message, f.now)
		f.retries.trial = none
	}
	f.retries.lack = map[types.NamespacedName]denial{}
	for _, key := range decide(f).lack {
		f.retries.lack[key] = denial{asked: f.pod.Asked, message: f.pod.Pending.Message}
	}
	return f.retries
}

func (r *retries) deny(key types.NamespacedName, asked fleet.Amount, message string, now time.Time) {
	d := r.denied[key]
	d.asked, d.message = asked, message
	d.again = now.Add(min(firstRetry<<min(d.times, 10), lastRetry))
	d.times++
	if r.denied == nil {
		r.denied = map[types.NamespacedName]denial{}
	}
	r.denied[key] = d
}

// due is the oldest NodeWorkload that is asked for again: its time has come, or the Pod would
// request less with it than what was not granted, since it was not the only one, or another has gone.
func (f facts) due() types.NamespacedName {
	want := decide(f).want
	for _, s := range f.shares {
		d, denied := f.retries.denied[s.Key()]
		if !denied || s.Terminal() {
			continue
		}
		with := want.Plus(s.Amount)
		if !f.now.Before(d.again) || with != d.asked && with.Within(d.asked) {
			return s.Key()
		}
	}
	return none
}

// next is when something is given up or asked for again without a change; zero: never. What is late
// waits for the Pod.
func (r retries) next(now time.Time) time.Time {
	var first time.Time
	sooner := func(t time.Time) {
		if t.After(now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !r.since.IsZero() {
		sooner(r.since.Add(forbearance))
	}
	for _, d := range r.denied {
		if !d.gone {
			sooner(d.again)
		}
	}
	return first
}
