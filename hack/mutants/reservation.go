// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var reservationMistakes = []mistake{
	{"one NodeWorkload can ask for more than the node has", "decide.go",
		"all.Within(f.allocatable)", "true"},
	{"what ended stays reserved", "decide.go",
		"if s.Terminal() || !f.used {", "if !f.used {"},
	{"what was given up is asked for all the time", "decide.go",
		"asked := fits && !f.retries.wait(s.Key())", "asked := fits"},
	{"a retry takes what older ones were granted", "decide.go",
		"f.pod != nil && f.retries.trial != s.Key() &&", "f.pod != nil &&"},
	{"a deferred resize is asked for as long as it is deferred", "backoff.go",
		"case f.now.Sub(f.retries.since) >= forbearance:", "case false:"},
	{"a retry is asked for as long as a first try", "backoff.go",
		"case f.retries.trial != none && settled:", "case false:"},
	{"retries do not become rare", "backoff.go",
		"firstRetry<<min(d.times, 10)", "firstRetry<<min(d.times, 0)"},
	{"what has room waits for what has none", "backoff.go",
		"with != d.asked && with.Within(d.asked)", "with == d.asked && d.asked == Own"},
	{"a request that changes all the time is never given up", "backoff.go",
		"if f.retries.since.IsZero() {", "if f.retries.since.IsZero() || !settled {"},
	{"what is given up waits for a change of the node", "reconciler.go",
		"next.at(f.retries.next(now), now)", "_ = f.retries.next"},
	{"a workload that is made again was never given up", "gone.go",
		"return d.gone && now.Sub(d.again) >= goneKept", "return d.gone"},
	{"a workload that leaves before it is given up may come back at once", "gone.go",
		"r.deny(key, d.asked, d.message, now)", "_, _ = key, d"},
	{"what is gone is remembered without bound", "gone.go",
		"if count <= maxGone {", "if true {"},
	{"conditions hold up resizes", "resize.go",
		"accept(r.resizes, next)", "accept(r.writes, next)"},
	{"a Pod is resized before it is admitted", "resize.go",
		"pod == nil || !pod.Admitted || ", "pod == nil || "},
}
