// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

const years = 10 * 365 * 24 * time.Hour

// killAt is a kill that began at a time and, unless it takes no time, has ended.
func killAt(id string, start time.Time, took time.Duration) v1alpha1.KillRecord {
	r := managertest.Kill(id, 0, v1alpha1.KillPhaseStopping, "")
	r.StartTime = metav1.NewMicroTime(start)
	if took > 0 {
		r.Phase, r.Outcome, r.FinishTime = v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced, new(metav1.NewMicroTime(start.Add(took)))
	}
	return r
}

// writtenAt lets managedFields say when a shim wrote the status, and the manager after it.
func writtenAt(nw *v1alpha1.NodeWorkload, at time.Time) {
	nw.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "managedworkload-shim", Subresource: "status", Time: new(metav1.NewTime(at))},
		{Manager: writes.FieldManager, Subresource: "status", Time: new(metav1.NewTime(at.Add(time.Hour)))},
		{Manager: writes.FieldManager, Time: new(metav1.NewTime(at.Add(time.Hour)))},
	}
}

// The kills of a node whose clock is years behind are as new as those of others: 20 others do
// not push them out at once, they are announced, and a new manager keeps their places.
func TestKillsOfAClockThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recent []v1alpha1.NodeKillRecord
		for i := range 20 {
			recent = append(recent, onNode("n2", killAt(fmt.Sprint("honest", i), time.Now().Add(-time.Duration(i+1)*time.Minute), time.Second))...)
		}
		l := NewLedger()
		nw := managertest.NodeWorkload("n1", "mw")
		report := func(kills ...v1alpha1.KillRecord) []v1alpha1.NodeKillRecord {
			nw = nw.DeepCopy()
			nw.Status.Kills = kills
			writtenAt(nw, time.Now())
			l.Observe(nw)
			pending := l.Pending("mw")
			l.Settled("mw", pending, time.Now())
			return pending.Records
		}
		report()
		seen, start := time.Now(), time.Now().Add(-years)
		recent = MergeKills(recent, report(killAt("behind", start, 0)), time.Now())
		if first := recent[0]; first.ID != "behind" || first.ObservedTime == nil || !first.ObservedTime.Time.Equal(seen) {
			t.Fatalf("the newest is %s, observed at %s, want behind, at %s", first.ID, first.ObservedTime, seen)
		}
		time.Sleep(10 * time.Minute)
		ended := report(killAt("behind", start, 10*time.Minute))
		if got := NewlyForced(recent, ended, l.Since()); got != 1 {
			t.Errorf("%d forced kills, want 1", got)
		}
		for what, shown := range map[string][]v1alpha1.NodeKillRecord{"shown": recent, "pushed out": nil} {
			if diff := cmp.Diff([]string{"n1/behind Done Forced"}, describeKills(NewlyDone(shown, ended, l.Since().Add(time.Minute)))); diff != "" {
				t.Errorf("to be announced, %s (-want +got):\n%s", what, diff)
			}
		}
		recent = MergeKills(recent, ended, time.Now())
		if first := recent[0]; first.ID != "behind" || first.Phase != v1alpha1.KillPhaseDone || !first.ObservedTime.Time.Equal(seen) {
			t.Errorf("at its end: %s %s, observed at %s, want at %s", first.ID, first.Phase, first.ObservedTime, seen)
		}
		time.Sleep(time.Hour)
		l = NewLedger() // the manager restarts: what it lists is not new
		l.Observe(nw)
		listed := l.Pending("mw").Records
		if len(listed) != 1 || listed[0].ObservedTime != nil {
			t.Errorf("listed after a restart: %+v", listed)
		}
		if diff := cmp.Diff(recent, MergeKills(recent, listed, time.Now())); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
	})
}

// A clock that is right is believed, however late a record comes and however long a kill takes.
func TestKillsOfAClockThatIsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLedger()
		nw := managertest.NodeWorkload("n1", "mw")
		report := func(at time.Time, kills ...v1alpha1.KillRecord) {
			t.Helper()
			nw = nw.DeepCopy()
			nw.Status.Kills = kills
			writtenAt(nw, at)
			l.Observe(nw)
			for _, r := range l.Pending("mw").Records {
				if r.ObservedTime != nil {
					t.Errorf("%s: observed at %s, want its own time", r.ID, r.ObservedTime)
				}
			}
			l.Settled("mw", l.Pending("mw"), time.Now())
		}
		report(time.Now())
		began := time.Now()
		report(time.Now(), killAt("long", began, 0))
		time.Sleep(time.Hour)
		hook := killAt("long", began, 0)
		hook.Summary = "the hook has ended"
		report(time.Now(), hook)
		time.Sleep(time.Hour)
		report(time.Now(), killAt("long", began, 2*time.Hour))
		late := killAt("late", time.Now(), time.Second)
		wrote := time.Now()
		time.Sleep(time.Hour) // the manager does not hear of it
		report(wrote, late)
	})
}

// A manager that has just begun does not believe a node whose clock is off: it was ready when
// the status was written at the latest, also after the next restart.
func TestReadySinceAfterARestart(t *testing.T) {
	tests := map[string]struct {
		ready, written time.Duration // before now
		another        time.Duration // of another condition
		want           time.Duration
	}{
		"a clock that is behind":                               {ready: years, written: 5 * time.Second, another: years + time.Hour, want: 5 * time.Second},
		"a clock that is behind, ready for weeks":              {ready: years, written: 500 * time.Hour, another: years, want: 500 * time.Hour},
		"a clock that is an hour behind":                       {ready: time.Hour, written: 5 * time.Second, another: time.Hour, want: 5 * time.Second},
		"a clock that is ahead":                                {ready: -years, written: 500 * time.Hour, another: -years, want: 500 * time.Hour},
		"a clock that is right":                                {ready: time.Hour, written: time.Hour - time.Second, another: 2 * time.Hour, want: time.Hour},
		"a clock that is right, and something changed since":   {ready: time.Hour, written: time.Second, another: time.Second, want: time.Hour},
		"no word when it was written":                          {ready: time.Hour, another: time.Hour, want: time.Hour},
		"no word when it was written by a clock that is ahead": {ready: -years, another: -years, want: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				nw := managertest.NodeWorkload("n1", "mw")
				nw.Status.Conditions = []metav1.Condition{
					{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-tc.ready))},
					{Type: v1alpha1.ConditionUpdateWaiting, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-tc.another))},
					{Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
				}
				if tc.written > 0 {
					writtenAt(nw, now.Add(-tc.written))
				}
				for _, take := range map[string]func(*Index){
					"listed":  func(x *Index) { x.Reset(&v1alpha1.NodeWorkloadList{Items: []v1alpha1.NodeWorkload{*nw}}) },
					"watched": func(x *Index) { x.Observe(nw) },
				} {
					x := NewIndex(NewLedger())
					take(x)
					if got := now.Sub(x.OfWorkload("mw")[0].ReadySince); got != tc.want {
						t.Errorf("ready for %s, want %s", got, tc.want)
					}
				}
			})
		})
	}
}
