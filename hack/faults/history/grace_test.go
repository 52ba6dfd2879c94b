// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestCheckGrace(t *testing.T) {
	checkTests{
		"less than its grace": {
			history: History{
				Lives: []Life{obeyed(forced(3))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
			},
			wantRules: []string{"less than its grace"},
		},
		"SIGKILL without a stop signal": {
			history: History{
				Lives: []Life{obeyed(forced(6), func(l *Life) { l.Term = time.Time{} })}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
			},
			wantRules: []string{"less than its grace"},
		},
		"a stop before the program took signals": {
			history: History{
				Lives: []Life{obeyed(forced(5), func(l *Life) { l.Term, l.Start = time.Time{}, at(100.3) })}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("StopContainer", 100, 105)},
			},
		},
		"a stop before the program took signals, with less than its grace": {
			history: History{
				Lives: []Life{obeyed(forced(3), func(l *Life) { l.Term, l.Start = time.Time{}, at(100.3) })}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("StopContainer", 100, 103)},
			},
			wantRules: []string{"less than its grace"},
		},
		"the hook counts for the grace": {
			history: History{
				Lives: []Life{obeyed(forced(3), func(l *Life) { l.Hook = at(99.6); l.Last = at(104.6) })}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
			},
		},
		"a shorter grace period that was asked for": {
			history: History{
				Lives: []Life{obeyed(forced(3))}, Requests: []Request{deleted(func(r *Request) { r.Grace = 3 * time.Second })},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
			},
		},
		"a start that was cut off": {
			history: History{
				Lives: []Life{next(func(l *Life) { l.Last, l.Stopped = at(102.2), false })},
				Calls: []Call{{Method: "StartContainer", Container: "2", Began: at(101.8), Made: at(101.8), Ended: at(102.1)}},
			},
			wantExempt: map[string]int{"start cut off": 2},
		},
		"SIGKILL of what came up after its start was cut off": {
			history: History{
				Lives: []Life{next(func(l *Life) { l.Start, l.Last, l.Stopped = at(105), at(106.5), false })},
				Calls: []Call{{Method: "StartContainer", Container: "2", Began: at(101.8), Made: at(101.8), Ended: at(102.1)}},
			},
			wantExempt: map[string]int{"start cut off": 2},
		},
		"SIGKILL of what came up after its start was cut off, when its sandbox was stopped": {
			history: History{
				Lives: []Life{next(func(l *Life) { l.Start, l.Last, l.Stopped = at(105), at(106.5), false })},
				Calls: []Call{
					{Method: "CreateContainer", Container: "2", Sandbox: "s", Began: at(101.7), Made: at(101.7), Ended: at(101.8), Done: true},
					{Method: "StartContainer", Container: "2", Began: at(101.8), Made: at(101.8), Ended: at(102.1)},
					{Method: "StopPodSandbox", Sandbox: "s", Began: at(106), Made: at(106), Ended: at(107), Done: true},
				},
			},
			wantRules: []string{"kill not requested", "less than its grace"},
		},
		"SIGKILL of what the runtime had started": {
			history: History{
				Lives: []Life{next(func(l *Life) { l.Last, l.Stopped = at(102.2), false })},
				Calls: []Call{
					{Method: "StartContainer", Container: "2", Began: at(101.8), Made: at(101.8), Ended: at(101.9), Done: true},
					{Method: "StartContainer", Container: "2", Began: at(102), Made: at(102), Ended: at(102.1)},
				},
			},
			wantRules: []string{"kill not requested", "less than its grace"},
		},
		"SIGKILL long after its start was cut off": {
			history: History{
				Lives: []Life{next(func(l *Life) { l.Stopped = false })},
				Calls: []Call{{Method: "StartContainer", Container: "2", Began: at(101.8), Made: at(101.8), Ended: at(102.1)}},
			},
			wantRules: []string{"kill not requested", "less than its grace"},
		},
		"the runtime did not pass on what it was asked in time": {
			history: History{
				Lives: []Life{obeyed(forced(2.1))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("ExecSync", 97, 100), asks("StopContainer", 100, 102.1)},
			},
			wantExempt: map[string]int{"the runtime was asked in time, and an outage kept the container from hearing of its end": 1},
		},
		"the runtime was asked too late": {
			history: History{
				Lives: []Life{obeyed(forced(2.1))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("ExecSync", 98.5, 100), asks("StopContainer", 100, 102.1)},
			},
			wantRules: []string{"less than its grace"},
		},
		"a stop that was refused begins nothing": {
			history: History{
				Lives: []Life{obeyed(forced(2.1))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls: []Call{
					{Method: "StopContainer", Container: "1", Began: at(96), Ended: at(97), Refused: true},
					asks("StopContainer", 100, 102.1),
				},
			},
			wantRules: []string{"less than its grace"},
		},
		"a sidecar that waited for its turn": {
			history: History{
				Lives:    []Life{obeyed(sidecar, forced(2.1)), obeyed(func(l *Life) { l.ID, l.Container, l.Term, l.Last = "2", "b", at(97), at(99.9) })},
				Requests: []Request{deleted(func(r *Request) { r.From, r.Acked = at(96), at(96.5) })},
				Records:  []Record{recorded(v1alpha1.KillOutcomeForced), recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.ID, r.ContainerID = "k2", "2" })},
			},
		},
		"a sidecar that waited for a kill that the runtime refused": {
			history: History{
				Lives:    []Life{obeyed(sidecar, forced(2.1)), obeyed(func(l *Life) { l.ID, l.Container, l.Term, l.Last = "2", "b", at(100.5), at(100.9) })},
				Requests: []Request{deleted(func(r *Request) { r.From, r.Acked = at(96), at(96.5) })},
				Records:  []Record{recorded(v1alpha1.KillOutcomeForced), recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.ID, r.ContainerID = "k2", "2" })},
				Calls: []Call{
					{Method: "StopContainer", Container: "2", Began: at(97), Ended: at(97.1), Refused: true},
					{Method: "StopContainer", Container: "2", Began: at(100.4), Made: at(100.4), Ended: at(100.9), Done: true},
					asks("StopContainer", 100, 102.1),
				},
			},
		},
		"a sidecar that waited for nothing": {
			history: History{
				Lives: []Life{obeyed(sidecar, forced(2.1))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
			},
			wantRules: []string{"less than its grace"},
		},
		"less than the minimum, whatever failed before": {
			history: History{
				Lives: []Life{obeyed(forced(1))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("ExecSync", 95, 100)},
			},
			wantRules: []string{"less than its grace"},
		},
		"more than its grace": {
			history: History{
				Lives: []Life{obeyed(forced(20))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"more than its grace, because the runtime ended it late": {
			history: History{
				Lives: []Life{obeyed(forced(12))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{stops(100, 112, 5)},
			},
			wantExempt: map[string]int{"the runtime ended the container later than it was asked to": 1},
		},
		"more than its grace, because the runtime was asked late": {
			history: History{
				Lives: []Life{obeyed(forced(14))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{stops(105, 114, 5)},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"more than its grace, because the runtime was asked for too much": {
			history: History{
				Lives: []Life{obeyed(forced(12))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{stops(100, 112, 12)},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"more than its grace, and the runtime answered before the end": {
			history: History{
				Lives: []Life{obeyed(forced(12))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{stops(100, 105, 5)},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"five seconds more than its grace": {
			history: History{
				Lives: []Life{obeyed(forced(10))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("StopContainer", 100, 110)},
				Faults:  []Fault{{Node: true, From: at(80), To: at(99.9)}, {Node: true, Pod: "v", From: at(101), To: at(109)}},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"more than its grace because of an outage of the node": {
			history: History{
				Lives: []Life{obeyed(forced(20))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("StopContainer", 100, 120)},
				Faults:  []Fault{{Node: true, From: at(101), To: at(115)}},
			},
		},
		"more than its grace and the outage of the node": {
			history: History{
				Lives: []Life{obeyed(forced(20))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("StopContainer", 100, 120)},
				Faults:  []Fault{{Node: true, From: at(101), To: at(109)}},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"a kill that was cut off and taken up again": {
			history: History{
				Lives: []Life{obeyed(forced(14))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls: []Call{
					{Method: "StopContainer", Container: "1", Began: at(100), Made: at(100), Ended: at(103)},
					asks("StopContainer", 107, 114),
				},
				Faults: []Fault{{Node: true, From: at(103), To: at(106)}},
			},
		},
		"a stop that was refused and soon tried again": {
			history: History{
				Lives: []Life{obeyed(forced(14))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls: []Call{
					{Method: "StopContainer", Container: "1", Began: at(100), Made: at(100), Ended: at(104), Refused: true},
					asks("StopContainer", 108, 114),
				},
				Faults: []Fault{{Node: true, From: at(104), To: at(105)}},
			},
		},
		"a stop that was refused and not tried again for long": {
			history: History{
				Lives: []Life{obeyed(forced(24))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls: []Call{
					{Method: "StopContainer", Container: "1", Began: at(100), Made: at(100), Ended: at(104), Refused: true},
					asks("StopContainer", 118, 124),
				},
				Faults: []Fault{{Node: true, From: at(104), To: at(105)}},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"a kill waits a moment for the disk": {
			history: History{
				Lives: []Life{obeyed(forced(9))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("StopContainer", 100, 109)},
				Faults:  []Fault{{Disk: true, From: at(99), To: at(109)}},
			},
		},
		"and no longer": {
			history: History{
				Lives: []Life{obeyed(forced(11))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Calls:   []Call{asks("StopContainer", 100, 111)},
				Faults:  []Fault{{Disk: true, From: at(99), To: at(111)}},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"an outage of the API server does not lengthen a kill": {
			history: History{
				Lives: []Life{obeyed(forced(20))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Faults:  []Fault{{API: true, From: at(101), To: at(104)}},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
	}.run(t)
}

func TestKillsOutsideOfOutagesAreCounted(t *testing.T) {
	h := History{
		Lives: []Life{obeyed(), next(func(l *Life) { l.Term = at(108) })}, Requests: []Request{deleted()},
		Faults: []Fault{{Node: true, From: at(105), To: at(109)}, {API: true, From: at(90), To: at(200)}},
	}
	if report := Check(&h); report.Outside != 1 {
		t.Errorf("%d kills, want the first", report.Outside)
	}
}

func TestOutagesThatOverlapCountOnce(t *testing.T) {
	j := &judge{History: &History{Faults: []Fault{
		{Node: true, From: at(12), To: at(20)}, {Node: true, From: at(10), To: at(30)}, {API: true, From: at(50), To: at(60)},
		{Node: true, Pod: "v", From: at(80), To: at(90)},
	}}}
	if got, want := j.nodeOutage(&Life{UID: "u"}, at(11), at(100), nodeRecovery), 19*time.Second+nodeRecovery; got != want {
		t.Errorf("node: %s, want %s", got, want)
	}
	if got, want := j.nodeOutage(&Life{UID: "v"}, at(80), at(100), nodeRecovery), 10*time.Second+nodeRecovery; got != want {
		t.Errorf("the pod whose runtime shim stood still: %s, want %s", got, want)
	}
	if got, want := j.outage(at(0), at(75), apiRecovery, anyFault), 20*time.Second+apiRecovery+10*time.Second+apiRecovery; got != want {
		t.Errorf("all: %s, want %s", got, want)
	}
}

func sidecar(l *Life) { l.Sidecar = true }
