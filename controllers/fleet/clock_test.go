// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
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

func newLedger() *Ledger { return NewLedger(NewShims("system")) }

func newIndex() *Index {
	kills := newLedger()
	return NewIndex(kills, kills.shims)
}

// leaseBy is the Lease of node n1 that its shim renews now, by a clock that is ahead. A person
// annotates it an hour later.
func leaseBy(ahead time.Duration) *coordinationv1.Lease {
	lease := managertest.Lease(time.Now().Add(ahead))
	entry := func(manager, fields string, at time.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: new(metav1.NewTime(at.Truncate(time.Second))), FieldsV1: metav1.NewFieldsV1(fields)}
	}
	lease.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("managedworkload-shim", `{"f:spec":{"f:holderIdentity":{},"f:renewTime":{}}}`, time.Now()),
		entry("kubectl", `{"f:metadata":{"f:annotations":{}}}`, time.Now().Add(time.Hour)),
	}
	return lease
}

// How far a clock is off shows in each renewal of a Lease, and in no other write of it.
func TestMeasureAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unsaid, never := leaseBy(-years), leaseBy(-years)
		unsaid.ManagedFields, never.Spec.RenewTime = nil, nil
		tests := map[string]struct {
			lease           *coordinationv1.Lease
			want, wantWrong bool
			wantOffset      time.Duration
		}{
			"right":              {lease: leaseBy(0), want: true},
			"a little ahead":     {lease: leaseBy(clockTolerance), want: true, wantOffset: clockTolerance},
			"ahead":              {lease: leaseBy(time.Hour), want: true, wantOffset: time.Hour, wantWrong: true},
			"behind":             {lease: leaseBy(-years), want: true, wantOffset: -years, wantWrong: true},
			"no managedFields":   {lease: unsaid},
			"never renewed":      {lease: never},
			"another node's":     {lease: managertest.LeaseOf("n2", time.Now())},
			"not a shim's Lease": {lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}},
		}
		for name, tc := range tests {
			s := NewShims("system")
			s.Observe(tc.lease, time.Now())
			got := s.clock("n1")
			if got.known != tc.want || got.Duration != tc.wantOffset || got.wrong() != tc.wantWrong {
				t.Errorf("%s: %+v, wrong: %v, want %s, known: %v, wrong: %v", name, got, got.wrong(), tc.wantOffset, tc.want, tc.wantWrong)
			}
		}
		s := NewShims("system")
		s.Observe(leaseBy(-years), time.Now())
		time.Sleep(10 * time.Second)
		s.Observe(leaseBy(0), time.Now())
		if got := s.clock("n1"); got.wrong() {
			t.Errorf("after the clock was set: %+v", got)
		}
	})
}

// Kills on a node whose clock is years behind count as new when they are first seen: 20 kills on
// other nodes do not push them out at once, they are announced, and a new manager keeps their order.
func TestKillsOfAClockThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recent []v1alpha1.NodeKillRecord
		for i := range 20 {
			recent = append(recent, onNode("n2", killAt(fmt.Sprint("honest", i), time.Now().Add(-time.Duration(i+1)*time.Minute), time.Second))...)
		}
		l := newLedger()
		l.shims.Observe(leaseBy(-years), time.Now())
		nw := managertest.NodeWorkload("n1", "mw")
		report := func(kills ...v1alpha1.KillRecord) []v1alpha1.NodeKillRecord {
			nw = nw.DeepCopy()
			nw.Status.Kills = kills
			l.Observe(nw)
			pending := l.Pending("mw", time.Time{})
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
		if got := Forced(NewlyEnded(recent, ended, nil, l.Since())); got != 1 {
			t.Errorf("%d forced kills, want 1", got)
		}
		for what, shown := range map[string][]v1alpha1.NodeKillRecord{"shown": recent, "pushed out": nil} {
			if diff := cmp.Diff([]string{"n1/behind Done Forced"}, describeKills(NewlyEnded(shown, ended, nil, l.Since().Add(time.Minute)))); diff != "" {
				t.Errorf("to be announced, %s (-want +got):\n%s", what, diff)
			}
		}
		recent = MergeKills(recent, ended, time.Now())
		if first := recent[0]; first.ID != "behind" || first.Phase != v1alpha1.KillPhaseDone || !first.ObservedTime.Time.Equal(seen) {
			t.Errorf("at its end: %s %s, observed at %s, want at %s", first.ID, first.Phase, first.ObservedTime, seen)
		}
		time.Sleep(time.Hour)
		l = newLedger() // the manager restarts: what it lists is not new
		l.shims.Observe(leaseBy(-years), time.Now())
		l.Observe(nw)
		listed := l.Pending("mw", time.Time{}).Records
		if len(listed) != 1 || listed[0].ObservedTime != nil {
			t.Errorf("listed after a restart: %+v", listed)
		}
		if diff := cmp.Diff(recent, MergeKills(recent, listed, time.Now())); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
	})
}

// A clock that is right, or of which nothing is known, is believed, however late a record comes
// and however long a kill takes. One that is ahead is not, however late the record.
func TestObservedTimeOfALateRecord(t *testing.T) {
	unsaid := func(ahead time.Duration) *coordinationv1.Lease {
		lease := leaseBy(ahead)
		lease.ManagedFields = nil
		return lease
	}
	tests := map[string]struct {
		lease func(time.Duration) *coordinationv1.Lease
		ahead time.Duration
		want  bool
	}{
		"right":                             {lease: leaseBy},
		"half a minute behind":              {lease: leaseBy, ahead: -30 * time.Second},
		"ahead, by less than a record late": {lease: leaseBy, ahead: 30 * time.Minute, want: true},
		"behind":                            {lease: leaseBy, ahead: -30 * time.Minute, want: true},
		"behind, no managedFields":          {lease: unsaid, ahead: -30 * time.Minute},
		"far ahead, no managedFields":       {lease: unsaid, ahead: years, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLedger()
				l.shims.Observe(tc.lease(tc.ahead), time.Now())
				nw := managertest.NodeWorkload("n1", "mw")
				report := func(kills ...v1alpha1.KillRecord) {
					t.Helper()
					nw = nw.DeepCopy()
					nw.Status.Kills = kills
					l.Observe(nw)
					for _, r := range l.Pending("mw", time.Time{}).Records {
						if (r.ObservedTime != nil) != tc.want || tc.want && r.ID == "late" && !r.ObservedTime.Time.Equal(time.Now()) {
							t.Errorf("%s: observed at %v", r.ID, r.ObservedTime)
						}
					}
					l.Settled("mw", l.Pending("mw", time.Time{}), time.Now())
				}
				report()
				began := time.Now().Add(tc.ahead)
				report(killAt("long", began, 0))
				time.Sleep(time.Hour)
				report(killAt("long", began, time.Hour))
				late := killAt("late", time.Now().Add(tc.ahead), time.Second)
				time.Sleep(time.Hour) // the shim cannot report, or the manager does not hear of it
				report(late)
			})
		})
	}
}

// A manager that has just begun takes the times of a node whose clock is off for what they are
// by a clock that is right, whichever of the Lease and the NodeWorkload it sees first. What the
// shim wrote since, and when, does not matter.
func TestTimesAfterARestart(t *testing.T) {
	tests := map[string]struct {
		ago   time.Duration // by a clock that is right
		ahead time.Duration
		want  time.Duration
		none  bool // there is no word on the clock
	}{
		"right":                           {ago: 9 * time.Minute, want: 9 * time.Minute},
		"right, for weeks":                {ago: 500 * time.Hour, want: 500 * time.Hour},
		"nearly right":                    {ago: time.Hour, ahead: 30 * time.Second, want: time.Hour - 30*time.Second},
		"nearly right, just now":          {ago: 0, ahead: 30 * time.Second, want: 0},
		"an hour behind":                  {ago: 9 * time.Minute, ahead: -time.Hour, want: 9 * time.Minute},
		"years behind":                    {ago: 9 * time.Minute, ahead: -years, want: 9 * time.Minute},
		"years behind, for weeks":         {ago: 500 * time.Hour, ahead: -years, want: 500 * time.Hour},
		"an hour ahead":                   {ago: 9 * time.Minute, ahead: time.Hour, want: 9 * time.Minute},
		"years ahead":                     {ago: 9 * time.Minute, ahead: years, want: 9 * time.Minute},
		"behind, no managedFields":        {ago: 9 * time.Minute, ahead: -time.Hour, want: 69 * time.Minute, none: true},
		"ahead, no managedFields":         {ago: 9 * time.Minute, ahead: years, want: 0, none: true},
		"right, but no managedFields yet": {ago: 9 * time.Minute, want: 9 * time.Minute, none: true},
	}
	lists := map[string]func(*Index, *v1alpha1.NodeWorkload){
		"listed": func(x *Index, nw *v1alpha1.NodeWorkload) {
			x.Reset(&v1alpha1.NodeWorkloadList{Items: []v1alpha1.NodeWorkload{*nw}})
		},
		"watched": func(x *Index, nw *v1alpha1.NodeWorkload) { x.Observe(nw) },
	}
	for name, tc := range tests {
		for how, take := range lists {
			for order, leaseFirst := range map[string]bool{"the lease first": true, "the lease later": false} {
				t.Run(name+", "+how+", "+order, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						now := time.Now()
						nw := since(now.Add(tc.ahead - tc.ago))
						lease := leaseBy(tc.ahead)
						if tc.none {
							lease.ManagedFields = nil
						}
						x := newIndex()
						expect := func(what string, s *Share) {
							t.Helper()
							if ready, late := now.Sub(s.ReadySince), now.Sub(s.LateSince); ready != tc.want || late != tc.want {
								t.Errorf("%s: ready for %s, late for %s, want %s", what, ready, late, tc.want)
							}
						}
						if leaseFirst {
							x.shims.Observe(lease, now)
							expect("read before it is seen", x.Read(nw))
						}
						take(x, nw)
						if !leaseFirst {
							x.Observe(nw) // its shim reports the same once more
							time.Sleep(5 * time.Second)
							x.shims.Observe(lease, time.Now().Add(-5*time.Second))
						}
						expect("seen", x.OfWorkload("mw")[0])
						expect("read", x.Read(nw))
						time.Sleep(time.Minute)
						x.shims.Observe(leaseBy(0), time.Now()) // the clock is set
						nw = nw.DeepCopy()
						nw.Status.Summary = "crashed again"
						x.Observe(nw)
						expect("later", x.Get(client.ObjectKeyFromObject(nw)))
					})
				})
			}
		}
	}
}

// since is a NodeWorkload that is ready and waits for an image since a time by its node's
// clock. Its status was written since, without any new time.
func since(at time.Time) *v1alpha1.NodeWorkload {
	nw := managertest.NodeWorkload("n1", "mw")
	nw.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "managedworkload-shim", Subresource: "status", Time: new(metav1.Now())}}
	nw.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)},
		{Type: v1alpha1.ConditionUpdateWaiting, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)},
		{Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()},
	}
	return nw
}
