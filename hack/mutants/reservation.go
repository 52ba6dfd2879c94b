// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var reservationMistakes = []mistake{
	{"one NodeWorkload can ask for more than the node has", "facts.fits",
		"all.Within(f.allocatable)", "true"},
	{"what ended stays reserved", "decide",
		"if s.Terminal() || !f.used {", "if !f.used {"},
	{"what was given up is asked for all the time", "decide",
		"asked := fits && !f.retries.wait(s.Key())", "asked := fits"},
	{"a retry takes what older ones were granted", "facts.grants",
		"f.pod != nil && f.retries.trial != s.Key() &&", "f.pod != nil &&"},
	{"a deferred resize is asked for as long as it is deferred", "facts.learn",
		"case f.now.Sub(f.retries.since) >= forbearance:", "case false:"},
	{"a retry is asked for as long as a first try", "facts.learn",
		"case f.retries.trial != none && settled:", "case false:"},
	{"retries do not become rare", "retries.deny",
		"firstRetry<<min(d.times, 10)", "firstRetry<<min(d.times, 0)"},
	{"what has room waits for what has none", "facts.due",
		"with != d.asked && with.Within(d.asked)", "with == d.asked && d.asked == Own"},
	{"a request that changes all the time is never given up", "facts.learn",
		"if f.retries.since.IsZero() {", "if f.retries.since.IsZero() || !settled {"},
	{"what is given up waits for a change of the node", "Reconciler.gather",
		"next.at(f.retries.next(now), now)", "_ = f.retries.next"},
	{"a workload that is made again was never given up", "retries.of",
		"return d.gone && now.Sub(d.again) >= goneKept", "return d.gone"},
	{"a workload that leaves before it is given up may come back at once", "retries.of",
		"r.deny(key, d.asked, d.message, now)", "_, _ = key, d"},
	{"what is gone is remembered without bound", "retries.bound",
		"if count <= maxGone {", "if true {"},
	{"conditions hold up resizes", "Reconciler.resize",
		"accept(r.resizes, next)", "accept(r.writes, next)"},
	{"a Pod is resized before it is admitted", "Reconciler.resize",
		"pod == nil || !pod.Admitted ||", "pod == nil ||"},
}
