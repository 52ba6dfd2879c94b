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

// stops is a StopContainer that leaves the container seconds of a grace period.
func stops(began, ended, grace float64) Call {
	c := asks("StopContainer", began, ended)
	c.Timeout = time.Duration(grace * float64(time.Second))
	return c
}

// often are faults of the API server that leave hardly any time without one, or the
// recovery from one.
func often(from, to float64) (faults []Fault) {
	for ; from < to; from += 18 {
		faults = append(faults, Fault{API: true, From: at(from), To: at(from + 4)})
	}
	return faults
}

// checkTests are histories, by what happens in them.
type checkTests map[string]struct {
	history    History
	wantRules  []string
	wantExempt map[string]int
}

// run judges them.
func (tests checkTests) run(t *testing.T) {
	t.Helper()
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

func TestCheck(t *testing.T) {
	checkTests{
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
		"a kill that is not completed although something fails all the time": {
			history: History{
				Lives:    []Life{obeyed(func(l *Life) { l.Term, l.Last = at(310), at(311) })},
				Requests: []Request{deleted()}, Records: graceful(),
				Faults: often(99, 311),
			},
			wantRules: []string{"kill not completed"},
		},
		"a container whose probe fails because it has left by itself": {
			history: History{
				Lives:   []Life{obeyed(func(l *Life) { l.Term = time.Time{} })},
				Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerLivenessProbe })},
			},
		},
		"a container that left by itself before its deletion, and the record says so": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Term, l.Last = time.Time{}, at(98) })}, Requests: []Request{deleted()},
				Calls:   []Call{{Method: "StopContainer", Container: "1", Began: at(101), Made: at(101), Ended: at(101.1), Done: true}},
				Records: []Record{recorded(v1alpha1.KillOutcomeAlreadyStopped, func(r *Record) { r.StartTime.Time = at(-3600) })}, // the shim's clock was set
			},
		},
		"a container that left by itself before its deletion, and the runtime took no call": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Term, l.Last = time.Time{}, at(98) })}, Requests: []Request{deleted()},
				Calls:   []Call{{Method: "StopContainer", Container: "1", Began: at(101), Ended: at(101), Refused: true}},
				Records: []Record{recorded(v1alpha1.KillOutcomeFailed, func(r *Record) { r.StartTime.Time = at(101) })},
			},
		},
		"a container that left by itself before its deletion, and the record says otherwise": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Term, l.Last = time.Time{}, at(98) })}, Requests: []Request{deleted()},
				Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.StartTime.Time = at(101) })},
			},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a container that outlives its object": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Last = at(104) })}, Requests: []Request{deleted()}, Records: graceful(),
				Gone: map[string]time.Time{"u": at(102)},
			},
			wantRules: []string{"kill not completed"},
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
		"a hook beside a program that left by itself": {
			history: History{Lives: []Life{obeyed(func(l *Life) { l.Term = time.Time{} })}, Requests: []Request{deleted()}, Records: []Record{
				recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) {
					r.PreStop = &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded}
					r.ExitedDuring = v1alpha1.KillPhasePreStop
				}),
			}},
		},
		"a hook beside which the program left by itself, as the runtime's answer shows": {
			history: History{
				Lives:    []Life{obeyed(func(l *Life) { l.Term = time.Time{} })},
				Requests: []Request{deleted()}, Calls: []Call{{Method: "ExecSync", Container: "1", Made: at(100.9), Ended: at(101.1), Done: true}},
				Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) {
					r.PreStop = &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded}
					r.ExitedDuring = v1alpha1.KillPhaseWaitingForTurn
				})},
			},
		},
		"a hook that ended before the program left by itself": {
			history: History{
				Lives:    []Life{obeyed(func(l *Life) { l.Term = time.Time{} })},
				Requests: []Request{deleted()}, Calls: []Call{{Method: "ExecSync", Container: "1", Made: at(100.2), Ended: at(100.8), Done: true}},
				Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) {
					r.PreStop = &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded}
					r.ExitedDuring = v1alpha1.KillPhaseWaitingForTurn
				})},
			},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a hook that ran before the program took signals": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Calls: []Call{{Method: "ExecSync", Container: "1", Made: at(-0.5), Done: true}},
				Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) {
					r.PreStop = &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded}
				})},
			},
		},
		"a trigger that nothing pulled": {
			history: History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{
				recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerLivenessProbe }),
			}},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a record that does not end": {
			history: History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{
				recorded("", func(r *Record) { r.Phase = v1alpha1.KillPhaseStopping }),
			}},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a record that the shim took with it while its disk was full": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{
					recorded("", func(r *Record) { r.Phase = v1alpha1.KillPhaseStopping }),
				},
				Faults: []Fault{{Unwritten: true, From: at(98), To: at(103)}, {Node: true, Forgetful: true, From: at(101.5), To: at(104)}},
			},
			wantExempt: map[string]int{"record lost with the shim while its disk took no checkpoint": 1},
		},
		"a kill without a record, which the shim took with it while its disk was full": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()},
				Faults: []Fault{{Unwritten: true, From: at(98), To: at(103)}, {Node: true, Forgetful: true, From: at(101.5), To: at(104)}},
			},
			wantExempt: map[string]int{"record lost with the shim while its disk took no checkpoint": 1},
		},
		"a record that does not end although the disk was well before the shim was killed": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{
					recorded("", func(r *Record) { r.Phase = v1alpha1.KillPhaseStopping }),
				},
				Faults: []Fault{{Unwritten: true, From: at(90), To: at(95)}, {Node: true, Forgetful: true, From: at(101.5), To: at(104)}},
			},
			wantRules: []string{"record disagrees with the journal"},
		},
		"a kill without a record": {
			history:   History{Lives: []Life{obeyed()}, Requests: []Request{deleted()}},
			wantRules: []string{"record disagrees with the journal"},
		},
		"an empty runtime shim that containerd was starting when it was killed": {
			history: History{
				EmptyShims: []EmptyShim{{Name: "shim", Started: at(9)}},
				Faults:     []Fault{{Node: true, Forgets: true, From: at(10), To: at(12)}},
			},
			wantExempt: map[string]int{"empty runtime shim that containerd lost when it was killed": 1},
		},
		"empty runtime shims of sandboxes whose callers were gone, refused, and answered": {
			history: History{
				EmptyShims: []EmptyShim{{Name: "shim", Started: at(9.5)}, {Name: "shim", Started: at(12)}, {Name: "shim", Started: at(20.5)}, {Name: "shim", Started: at(30.5)}},
				Calls: []Call{
					{Method: "RunPodSandbox", Made: at(9), Ended: at(10)},
					{Method: "RunPodSandbox", Made: at(20), Ended: at(21), Refused: true},
					{Method: "RunPodSandbox", Made: at(30), Ended: at(31), Done: true},
				},
			},
			wantRules:  []string{"left behind", "left behind", "left behind"},
			wantExempt: map[string]int{"empty runtime shim that containerd lost when its caller was gone": 1},
		},
		"an empty runtime shim whose sandbox was removed": {
			history: History{
				EmptyShims: []EmptyShim{{Name: "shim", Sandbox: "s", Started: at(1)}, {Name: "shim", Sandbox: "t", Started: at(1)}},
				Calls: []Call{
					{Method: "RemovePodSandbox", Sandbox: "s", Made: at(9), Done: true},
					{Method: "RemovePodSandbox", Sandbox: "t", Made: at(9), Refused: true},
				},
			},
			wantRules:  []string{"left behind"},
			wantExempt: map[string]int{"empty runtime shim of a sandbox that containerd has removed": 1},
		},
		"an empty runtime shim of before, and one of after": {
			history: History{
				EmptyShims: []EmptyShim{{Name: "shim", Started: at(1)}, {Name: "shim", Started: at(12)}},
				Faults:     []Fault{{Node: true, Forgets: true, From: at(10), To: at(12)}},
			},
			wantRules: []string{"left behind", "left behind"},
		},
		"root file systems of sandboxes whose runtime shims were killed, and of other sandboxes": {
			history: History{
				LeftBehind: []string{"mount /x/k8s.io/s/rootfs", "mount /x/k8s.io/t/rootfs", "mount /x/k8s.io/u/rootfs", "file /x/k8s.io/s/rootfs"},
				Faults:     []Fault{{Node: true, Killed: true, Sandbox: "s", From: at(1), To: at(2)}, {Node: true, Killed: true, Sandbox: "t", From: at(1), To: at(2)}},
				Calls:      []Call{{Method: "RemovePodSandbox", Sandbox: "s", Made: at(9), Done: true}, {Method: "RemovePodSandbox", Sandbox: "u", Made: at(9), Done: true}},
			},
			wantRules:  []string{"left behind", "left behind", "left behind"},
			wantExempt: map[string]int{"root file system of a sandbox whose runtime shim was killed, and that containerd has removed": 1},
		},
		"something left": {
			history:   History{LeftBehind: []string{"mount /x"}},
			wantRules: []string{"left behind"},
		},
	}.run(t)
}
