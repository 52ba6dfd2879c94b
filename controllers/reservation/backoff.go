// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// forbearance is how long a resize is asked for that the kubelet does not grant: the scheduler
// counts what is asked for, so that the node takes no Pods meanwhile.
const forbearance = 5 * time.Minute

// retries are what a node did not grant. They are not changed once they are made.
//
//	asked for --not granted for 5 min--> denied --not refused, or its time--> trial
//	trial --granted--> asked for        trial --not granted--> denied, for twice as long
type retries struct {
	// since is since when the kubelet does not grant what is asked for; zero: it does.
	since time.Time
	// denied are the NodeWorkloads that are not asked for, and why.
	denied map[types.NamespacedName]string
	// lack is what would be remembered of those that the kubelet does not grant now.
	lack map[types.NamespacedName]lack
	// trial is the one of the denied that is asked for now, the zero name for none: two at once
	// might be too much although one is not.
	trial types.NamespacedName
	// tried is what the Pod requests with it.
	tried fleet.Amount
	// granted is what each NodeWorkload was granted.
	granted map[types.NamespacedName]fleet.Amount
	// refusals are what the node did not grant, whoever asked for it.
	refusals []refusal
}

// lack is what the Pod requested with a NodeWorkload, and what the kubelet said.
type lack struct {
	asked   fleet.Amount
	message string
}

// none is the name of no NodeWorkload.
var none types.NamespacedName

func (r retries) has(key types.NamespacedName) bool { _, denied := r.denied[key]; return denied }

// wait reports whether a NodeWorkload is not asked for now.
func (r retries) wait(key types.NamespacedName) bool { return r.has(key) && r.trial != key }

// of is what is remembered once these are the NodeWorkloads. What left before it was granted was
// not granted: another one in its place would keep Pods from the node for a forbearance again.
func (r retries) of(shares []*fleet.Share, granted fleet.Amount, now time.Time) retries {
	there := map[types.NamespacedName]bool{}
	for _, s := range shares {
		there[s.Key()] = !s.Terminal()
	}
	gone := func(key types.NamespacedName) bool { return !there[key] }
	r.denied, r.lack, r.granted, r.refusals = maps.Clone(r.denied), maps.Clone(r.lack), maps.Clone(r.granted), slices.Clone(r.refusals)
	for key, l := range r.lack {
		if gone(key) {
			r.refuse(l.asked, l.message, granted, now)
		}
	}
	if r.trial != none && gone(r.trial) {
		if _, answered := r.lack[r.trial]; !answered {
			r.refuse(r.tried, r.denied[r.trial], granted, now)
		}
		r.trial = none
	}
	maps.DeleteFunc(r.denied, func(key types.NamespacedName, _ string) bool { return gone(key) })
	maps.DeleteFunc(r.lack, func(key types.NamespacedName, _ lack) bool { return gone(key) })
	maps.DeleteFunc(r.granted, func(key types.NamespacedName, _ fleet.Amount) bool { return gone(key) })
	r.forget(now)
	return r
}

// granted is what the kubelet granted last.
func (f facts) granted() fleet.Amount {
	if f.pod == nil {
		return Own
	}
	return f.pod.Granted
}

// learn is what is remembered after the kubelet's answer.
func (f facts) learn() retries {
	f.retries = f.retries.of(f.shares, f.granted(), f.now)
	f.retries.postpone(f.shares)
	if f.refused != "" && f.retries.trial != none { // or nothing else would be tried
		f.deny(decide(f).want, f.refused, f.retries.trial)
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
			f.retries.grant(f.shares, f.pod.Granted)
			f.retries.trial = f.due()
			f.retries.tried = decide(f).want
		}
		return f.retries
	}
	if f.retries.since.IsZero() {
		f.retries.since = f.now
	}
	switch {
	case f.now.Sub(f.retries.since) >= forbearance: // the youngest, as decide counts
		f.deny(f.pod.Asked, f.pod.Pending.Message, decide(f).lack...)
		f.retries.since = time.Time{}
	case f.retries.trial != none && settled:
		f.deny(f.pod.Asked, f.pod.Pending.Message, f.retries.trial)
	}
	f.retries.lack = map[types.NamespacedName]lack{}
	for _, key := range decide(f).lack {
		f.retries.lack[key] = lack{f.pod.Asked, f.pod.Pending.Message}
	}
	return f.retries
}

// postpone lets what is new wait where the node has refused something: it is tried by itself.
func (r *retries) postpone(all []*fleet.Share) {
	for _, s := range all {
		if key := s.Key(); len(r.refusals) > 0 && !s.Terminal() && !r.has(key) && !s.Amount.Within(r.granted[key]) {
			r.note(key, r.refusals[len(r.refusals)-1].message)
		}
	}
}

func (r *retries) note(key types.NamespacedName, message string) {
	if r.denied == nil {
		r.denied = map[types.NamespacedName]string{}
	}
	r.denied[key] = message
}

// deny ends the trial, and remembers that these were not granted.
func (f *facts) deny(asked fleet.Amount, message string, keys ...types.NamespacedName) {
	for _, key := range keys {
		f.retries.note(key, message)
		delete(f.retries.granted, key)
	}
	f.retries.trial = none
	if len(keys) > 0 {
		f.retries.refuse(asked, message, f.granted(), f.now)
	}
}

// grant remembers that all that is asked for is granted, and so much in all.
func (r *retries) grant(all []*fleet.Share, granted fleet.Amount) {
	delete(r.denied, r.trial)
	r.trial = none
	for _, s := range all {
		if s.Terminal() || r.has(s.Key()) {
			continue
		}
		if r.granted == nil {
			r.granted = map[types.NamespacedName]fleet.Amount{}
		}
		r.granted[s.Key()] = s.Amount
	}
	r.refusals = slices.DeleteFunc(r.refusals, func(known refusal) bool { return known.asked.Within(granted) })
}

// due is the NodeWorkload that is tried next: of those that ask for nothing that the node refused
// a short while ago, the one that asks for least. What is larger has no room where that has none.
func (f facts) due() types.NamespacedName {
	want := decide(f).want
	var least *fleet.Share
	for _, s := range f.shares {
		if s.Terminal() || !f.retries.has(s.Key()) || !f.fits(want.Plus(s.Amount)) || f.retries.refused(want.Plus(s.Amount), f.granted(), f.now) {
			continue
		}
		if least == nil || s.Amount.MilliCPU < least.Amount.MilliCPU || s.Amount.MilliCPU == least.Amount.MilliCPU && s.Amount.Memory < least.Amount.Memory {
			least = s
		}
	}
	if least == nil {
		return none
	}
	return least.Key()
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
	if len(r.denied) > 0 {
		for i := range r.refusals {
			sooner(r.refusals[i].again)
		}
	}
	return first
}
