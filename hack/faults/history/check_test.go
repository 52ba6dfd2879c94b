// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is a time by its seconds.
func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}

// obeyed is a life of 100 s that left at its stop signal; edits change it.
func obeyed(edits ...func(*Life)) Life {
	l := Life{
		Workload: "w", Container: "a", ID: "1", UID: "u", Incarnation: 1, Revision: 1, Grace: 5 * time.Second,
		Start: at(0), Term: at(100), Terms: 1, Last: at(101), Stopped: true,
	}
	for _, edit := range edits {
		edit(&l)
	}
	return l
}

// forced is one that was killed by SIGKILL some seconds after its stop signal.
func forced(seconds float64) func(*Life) {
	return func(l *Life) { l.Stopped, l.Last = false, l.Term.Add(time.Duration(seconds*float64(time.Second))) }
}

func deleted(edits ...func(*Request)) Request {
	r := Request{Kind: Delete, Workload: "w", Incarnation: 1, From: at(99), Acked: at(99.5), Grace: 5 * time.Second}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func recorded(outcome v1alpha1.KillOutcome, edits ...func(*Record)) Record {
	r := Record{Workload: "w", UID: "u", KillRecord: v1alpha1.KillRecord{
		ID: "k", ContainerID: "1", Trigger: v1alpha1.TriggerTermination,
		Phase: v1alpha1.KillPhaseDone, Outcome: outcome,
	}}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func graceful() []Record { return []Record{recorded(v1alpha1.KillOutcomeGraceful)} }

func next(edits ...func(*Life)) Life {
	l := Life{
		Workload: "w", Container: "a", ID: "2", UID: "u", Incarnation: 1, Revision: 2, Grace: 5 * time.Second,
		Start: at(102), Last: at(110), Stopped: true,
	}
	for _, edit := range edits {
		edit(&l)
	}
	return l
}

// asks is a call about the container that obeyed makes.
func asks(method string, began, ended float64) Call {
	return Call{Method: method, Container: "1", Began: at(began), Made: at(began), Ended: at(ended), Done: true}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		history    History
		wantRules  []string
		wantExempt map[string]int
	}{
		"a deletion that was obeyed": {
			history: History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: graceful()},
		},
		"an exit that nothing asked for": {
			history: History{Lives: []Life{obeyed(func(l *Life) { l.Term = time.Time{} })}},
		},
		"two instances of a container": {
			history: History{
				Lives:    []Life{obeyed(), next(func(l *Life) { l.Start = at(100.5) })},
				Requests: []Request{deleted()}, Records: graceful(),
			},
			wantRules: []string{"two instances at once"},
		},
		"an instance that met another's lock": {
			history: History{
				Lives:    []Life{obeyed(), next(func(l *Life) { l.NotAlone = true })},
				Requests: []Request{deleted()}, Records: graceful(),
			},
			wantRules: []string{"two instances at once"},
		},
		"another container of the same pod beside it": {
			history: History{
				Lives:    []Life{obeyed(), next(func(l *Life) { l.Container, l.Start = "b", at(50) })},
				Requests: []Request{deleted()}, Records: graceful(),
			},
		},
		"another container of another object of the name beside it": {
			history: History{
				Lives:    []Life{obeyed(), next(func(l *Life) { l.Container, l.UID, l.Start = "b", "v", at(50) })},
				Requests: []Request{deleted()}, Records: graceful(),
			},
			wantRules: []string{"two instances at once"},
		},
		"two instances after the runtime shim was killed": {
			history: History{
				Lives:    []Life{obeyed(), next(func(l *Life) { l.Start = at(100.5) })},
				Requests: []Request{deleted()}, Records: graceful(),
				Faults: []Fault{{Node: true, From: at(100), To: at(100), Pod: "u", Killed: true}},
			},
			wantExempt: map[string]int{"runtime shim killed": 2},
		},
		"the sandbox after the one whose runtime shim was killed": {
			history: History{
				Lives: []Life{next(func(l *Life) { l.Start, l.Term, l.Last = at(100.5), at(103), at(104) })},
				Calls: []Call{{Method: "CreateContainer", Container: "2", Sandbox: "new"}},
				Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) {
					r.ContainerID, r.Trigger = "2", v1alpha1.TriggerSandboxChanged
				})},
				Faults: []Fault{{Node: true, From: at(100), To: at(100), Pod: "u", Sandbox: "old", Killed: true}},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill that nothing asked for": {
			history:   History{Lives: []Life{obeyed()}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerUnknownState })}},
			wantRules: []string{"kill not requested"},
		},
		"a kill before it was asked for": {
			history: History{
				Lives: []Life{obeyed()}, Records: graceful(),
				Requests: []Request{deleted(func(r *Request) { r.From, r.Acked = at(100.5), at(100.6) })},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill for the revision that made the container": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted(func(r *Request) { r.Kind, r.Revision = Change, 1 })},
				Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerUnknownState })},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill long after the probe was well again": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted(func(r *Request) {
					r.Kind, r.Container, r.From, r.Acked, r.Until = FailProbe, "a", at(50), at(50), at(60)
				})},
				Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerUnknownState })},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill that a restored etcd asked for": {
			history: History{
				Lives: []Life{obeyed()}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerOrphan })},
				Created: map[string]time.Time{"u": at(85)},
				Faults:  []Fault{{API: true, Backup: at(80), From: at(95), To: at(98)}},
			},
			wantExempt: map[string]int{"not in the restored etcd": 1},
		},
		"a kill because a restored etcd has an earlier template": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Revision = 3 })}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerDefinitionChanged })},
				Requests: []Request{deleted(func(r *Request) { r.Kind, r.Revision, r.From, r.Acked = Change, 2, at(85), at(85) })},
				Created:  map[string]time.Time{"u": at(50)},
				Faults:   []Fault{{API: true, Backup: at(80), From: at(95), To: at(98)}},
			},
			wantExempt: map[string]int{"not in the restored etcd": 1, "request not in the restored etcd": 1},
		},
		"a kill after a restoration that has its template": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Revision = 3 })}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerOrphan })},
				Requests: []Request{deleted(func(r *Request) { r.Kind, r.Revision, r.From, r.Acked = Change, 3, at(40), at(40) })},
				Created:  map[string]time.Time{"u": at(30)},
				Faults:   []Fault{{API: true, Backup: at(80), From: at(95), To: at(98)}},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill of what was created after the restoration": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Start = at(99) })}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerOrphan })},
				Created: map[string]time.Time{"u": at(99)},
				Faults:  []Fault{{API: true, Backup: at(80), From: at(95), To: at(98)}},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill after a restoration of what was the same in the copy": {
			history: History{
				Lives: []Life{obeyed()}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerOrphan })},
				Faults: []Fault{{API: true, Backup: at(80), From: at(95), To: at(98)}},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill that is not completed": {
			history: History{
				Lives:    []Life{obeyed(func(l *Life) { l.Term, l.Last = at(190), at(191) })},
				Requests: []Request{deleted()}, Records: graceful(),
			},
			wantRules: []string{"kill not completed"},
		},
		"a kill that an outage held up": {
			history: History{
				Lives:    []Life{obeyed(func(l *Life) { l.Term, l.Last = at(190), at(191) })},
				Requests: []Request{deleted()}, Records: graceful(),
				Faults: []Fault{{API: true, From: at(99), To: at(170)}},
			},
		},
		"a container that outlives its object": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Last = at(104) })}, Requests: []Request{deleted()}, Records: graceful(),
				Gone: map[string]time.Time{"u": at(102)},
			},
			wantRules: []string{"kill not completed"},
		},
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
		"more than its grace because of an outage of the node": {
			history: History{
				Lives: []Life{obeyed(forced(20))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Faults:  []Fault{{Node: true, From: at(101), To: at(104)}},
			},
		},
		"an outage of the API server does not lengthen a kill": {
			history: History{
				Lives: []Life{obeyed(forced(20))}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeForced)},
				Faults:  []Fault{{API: true, From: at(101), To: at(104)}},
			},
			wantRules: []string{"more than its grace and the outage"},
		},
		"graceful by the record, SIGKILL by the journal": {
			history:   History{Lives: []Life{obeyed(forced(5.2))}, Requests: []Request{deleted()}, Records: graceful()},
			wantRules: []string{"record disagrees with the journal"},
		},
		"forced by the record, left by the journal": {
			history:   History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{recorded(v1alpha1.KillOutcomeForced)}},
			wantRules: []string{"record disagrees with the journal"},
		},
		"another exit code": {
			history: History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{
				recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.ExitCode = ptr.To[int32](3) }),
			}},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a hook that never ran": {
			history: History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{
				recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) {
					r.PreStop = &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded}
				}),
			}},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a trigger that nothing pulled": {
			history: History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{
				recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerLivenessProbe }),
			}},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a kill without a record": {
			history:   History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a kill whose record a restored etcd lacks": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()},
				Created: map[string]time.Time{"u": at(95)},
				Faults:  []Fault{{API: true, Backup: at(90), From: at(102), To: at(110)}},
			},
			wantExempt: map[string]int{"record not in the restored etcd": 1, "request not in the restored etcd": 1},
		},
		"an empty runtime shim that containerd was starting when it was killed": {
			history: History{
				EmptyShims: []EmptyShim{{Name: "shim", Started: at(9)}},
				Faults:     []Fault{{Node: true, Forgets: true, From: at(10), To: at(12)}},
			},
			wantExempt: map[string]int{"empty runtime shim that containerd lost when it was killed": 1},
		},
		"an empty runtime shim of before, and one of after": {
			history: History{
				EmptyShims: []EmptyShim{{Name: "shim", Started: at(1)}, {Name: "shim", Started: at(12)}},
				Faults:     []Fault{{Node: true, Forgets: true, From: at(10), To: at(12)}},
			},
			wantRules: []string{"left behind", "left behind"},
		},
		"something left": {
			history:   History{LeftBehind: []string{"mount /x"}},
			wantRules: []string{"left behind"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			report := Check(&tt.history)
			var rules []string
			for _, v := range report.Violations {
				rules = append(rules, v.Rule)
			}
			if diff := cmp.Diff(tt.wantRules, rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s%v", diff, report.Violations)
			}
			want := tt.wantExempt
			if want == nil {
				want = map[string]int{}
			}
			if diff := cmp.Diff(want, report.Exempt); diff != "" && tt.wantExempt != nil {
				t.Errorf("exempt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutagesThatOverlapCountOnce(t *testing.T) {
	j := &judge{History: &History{Faults: []Fault{
		{Node: true, From: at(12), To: at(20)}, {Node: true, From: at(10), To: at(30)}, {API: true, From: at(50), To: at(60)},
		{Node: true, Pod: "v", From: at(80), To: at(90)},
	}}}
	if got, want := j.nodeOutage(&Life{UID: "u"}, at(11), at(100)), 19*time.Second+nodeRecovery; got != want {
		t.Errorf("node: %s, want %s", got, want)
	}
	if got, want := j.nodeOutage(&Life{UID: "v"}, at(80), at(100)), 10*time.Second+nodeRecovery; got != want {
		t.Errorf("the pod whose runtime shim stood still: %s, want %s", got, want)
	}
	if got, want := j.outage(at(0), at(75), apiRecovery, anyFault), 20*time.Second+apiRecovery+10*time.Second+apiRecovery; got != want {
		t.Errorf("all: %s, want %s", got, want)
	}
}
