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
	"github.com/managedworkload/managedworkload/hack/managertest"
)

func onNode(node string, records ...v1alpha1.KillRecord) []v1alpha1.NodeKillRecord {
	var list []v1alpha1.NodeKillRecord
	for _, r := range records {
		list = append(list, v1alpha1.NodeKillRecord{NodeName: node, NodeWorkload: "web-" + node, KillRecord: r})
	}
	return list
}

func describeKills(list []v1alpha1.NodeKillRecord) []string {
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s/%s %s %s", r.NodeName, r.ID, r.Phase, r.Outcome))
	}
	return out
}

// later is when the records are merged.
var later = managertest.Epoch.Add(time.Hour)

func TestMergeKills(t *testing.T) {
	stopping, done := v1alpha1.KillPhaseStopping, v1alpha1.KillPhaseDone
	graceful, forced := v1alpha1.KillOutcomeGraceful, v1alpha1.KillOutcomeForced
	tests := map[string]struct {
		recent, records []v1alpha1.NodeKillRecord
		want            []string
	}{
		"nothing": {},
		"records of gone NodeWorkloads are kept, newest first": {
			recent:  onNode("n1", managertest.Kill("a", 1, done, graceful)),
			records: append(onNode("n2", managertest.Kill("a", 3, stopping, "")), onNode("n1", managertest.Kill("b", 2, done, forced))...),
			want:    []string{"n2/a Stopping ", "n1/b Done Forced", "n1/a Done Graceful"},
		},
		"a kill that ended": {
			recent:  onNode("n1", managertest.Kill("a", 1, stopping, "")),
			records: onNode("n1", managertest.Kill("a", 1, done, forced)),
			want:    []string{"n1/a Done Forced"},
		},
		"a late word of a kill that ended": {
			recent:  onNode("n1", managertest.Kill("a", 1, done, forced)),
			records: onNode("n1", managertest.Kill("a", 1, stopping, "")),
			want:    []string{"n1/a Done Forced"},
		},
		"the same time on two nodes": {
			records: append(onNode("n2", managertest.Kill("a", 1, done, graceful)), onNode("n1", managertest.Kill("a", 1, done, graceful))...),
			want:    []string{"n1/a Done Graceful", "n2/a Done Graceful"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, describeKills(MergeKills(tc.recent, tc.records, later))); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}

// A kill whose end is unknown is over: it is not shown as one under
// way, not counted as forced, and counted under a name of its own.
func TestUnknownOutcome(t *testing.T) {
	done, stopping := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping
	merged := MergeKills(onNode("n1", managertest.Kill("a", 1, done, "")), onNode("n1", managertest.Kill("a", 1, stopping, "")), later)
	if diff := cmp.Diff([]string{"n1/a Done "}, describeKills(merged)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if n := Forced(NewlyEnded(nil, merged, nil, time.Time{})); n != 0 {
		t.Errorf("%d forced", n)
	}
	if got := outcomeLabel(merged[0].Outcome); got != "Unknown" {
		t.Errorf("label %q", got)
	}
}

func TestKillsDue(t *testing.T) {
	tests := map[string]struct {
		lastWrite time.Time
		want      bool
		wantWait  time.Duration
	}{
		"never written":        {want: true},
		"written just now":     {lastWrite: managertest.Epoch, wantWait: 10 * time.Second},
		"written a while ago":  {lastWrite: managertest.Epoch.Add(-4 * time.Second), wantWait: 6 * time.Second},
		"written long ago":     {lastWrite: managertest.Epoch.Add(-11 * time.Second), want: true},
		"written 10 s ago":     {lastWrite: managertest.Epoch.Add(-10 * time.Second), want: true},
		"the clock went back ": {lastWrite: managertest.Epoch.Add(time.Second), wantWait: 11 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, wait := KillsDue(managertest.Epoch, tc.lastWrite, 10*time.Second)
			if got != tc.want || wait != tc.wantWait {
				t.Errorf("KillsDue = %v after %s, want %v after %s", got, wait, tc.want, tc.wantWait)
			}
		})
	}
}

// A kill that the runtime does not carry out is tried again and again, with a
// record of each attempt: only the last is shown, and what else happened stays.
func TestFailedAttemptsPushNothingOut(t *testing.T) {
	done, failed := v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeFailed
	attempt := func(i int, phase v1alpha1.KillPhase, outcome v1alpha1.KillOutcome) v1alpha1.KillRecord {
		r := managertest.Kill(fmt.Sprint("try", i), 100+i, phase, outcome)
		r.ContainerID = "containerd://1"
		return r
	}
	recent := onNode("n1", managertest.Kill("told", 1, done, v1alpha1.KillOutcomeForced))
	for i := range 30 {
		recent = MergeKills(recent, onNode("n2", attempt(i, v1alpha1.KillPhaseStopping, "")), later)
		recent = MergeKills(recent, onNode("n2", attempt(i, done, failed)), later)
	}
	other := attempt(40, done, failed)
	other.ContainerID = "containerd://2"
	recent = MergeKills(recent, onNode("n2", other), later)
	want := []string{"n2/try40 Done Failed", "n2/try29 Done Failed", "n1/told Done Forced"}
	if diff := cmp.Diff(want, describeKills(recent)); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	recent = MergeKills(recent, onNode("n2", attempt(50, done, v1alpha1.KillOutcomeGraceful)), later)
	want = []string{"n2/try50 Done Graceful", "n2/try40 Done Failed", "n1/told Done Forced"}
	if diff := cmp.Diff(want, describeKills(recent)); diff != "" {
		t.Errorf("carried out at last (-want +got):\n%s", diff)
	}
}

// A node whose clock is a year ahead does not fill the list for good: its kills are
// ordered by when the manager saw them, by its own clock, also after its restart.
func TestKillsOfAClockThatIsAhead(t *testing.T) {
	done, graceful := v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful
	const year = 365 * 24 * 3600
	var ahead, honest []v1alpha1.KillRecord
	for i := range 20 {
		ahead = append(ahead, managertest.Kill(fmt.Sprint("ahead", i), year+i, done, graceful))
		honest = append(honest, managertest.Kill(fmt.Sprint("honest", i), 60+i, done, graceful))
	}
	at := func(seconds int) time.Time { return managertest.Epoch.Add(time.Duration(seconds) * time.Second) }
	nodes := func(list []v1alpha1.NodeKillRecord) map[string]int {
		count := map[string]int{}
		for i := range list {
			count[list[i].NodeName]++
		}
		return count
	}
	recent := MergeKills(nil, onNode("n1", ahead...), at(30))
	if diff := cmp.Diff(map[string]int{"n1": 20}, nodes(recent)); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	for i := range 5 {
		recent = MergeKills(recent, onNode("n2", honest[i]), at(100))
	}
	if diff := cmp.Diff(map[string]int{"n1": 15, "n2": 5}, nodes(recent)); diff != "" || recent[0].ID != "honest4" {
		t.Errorf("after 5 honest ones (-want +got):\n%s", diff)
	}
	recent = MergeKills(recent, onNode("n2", honest...), at(100))
	if diff := cmp.Diff(map[string]int{"n1": 10, "n2": 10}, nodes(recent)); diff != "" || recent[0].NodeName != "n2" {
		t.Errorf("after 20 honest ones (-want +got):\n%s", diff)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		ours := managertest.NodeWorkload("n1", "mw", ahead[:10]...)
		ours.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		l.Observe(ours) // the first look of a manager that restarted
		for _, r := range l.Pending("mw", time.Time{}).Records {
			if !r.ObservedTime.Time.Equal(ours.CreationTimestamp.Time) {
				t.Errorf("%s: observed at %s, want when its object was created", r.ID, r.ObservedTime)
			}
		}
		next := ours.DeepCopy()
		next.Status.Kills = append(next.Status.Kills, ahead[10])
		l.Observe(next)
		for _, r := range l.Pending("mw", time.Time{}).Records {
			if r.ID == ahead[10].ID && !r.ObservedTime.Time.Equal(time.Now()) {
				t.Errorf("%s: observed at %s, want now", r.ID, r.ObservedTime)
			}
		}
	})
}

// Each kill counts once, also over a restart of the manager, and when more than 20 come at once.
func TestNewlyEnded(t *testing.T) {
	done, stopping, forced, graceful := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping, v1alpha1.KillOutcomeForced, v1alpha1.KillOutcomeGraceful
	kill := func(id string, second int) v1alpha1.KillRecord { return managertest.Kill(id, second, done, forced) }
	full := func(node string) []v1alpha1.NodeKillRecord {
		var list []v1alpha1.NodeKillRecord
		for i := range 20 {
			list = append(list, onNode(node, kill(fmt.Sprint("shown", i), 100+i))...)
		}
		return list
	}
	long := kill("long", 1)
	long.FinishTime = new(metav1.NewMicroTime(managertest.Epoch.Add(300 * time.Second)))
	ahead := onNode("n1", kill("ahead", 365*24*3600))
	ahead[0].ObservedTime = new(metav1.NewMicroTime(managertest.Epoch))
	attempt := func(id string, second int) v1alpha1.KillRecord {
		r := managertest.Kill(id, second, done, v1alpha1.KillOutcomeFailed)
		r.ContainerID = "containerd://1"
		return r
	}
	since := managertest.Epoch.Add(200 * time.Second)
	tests := map[string]struct {
		recent, records []v1alpha1.NodeKillRecord
		want            []string
	}{
		"new":                                          {nil, onNode("n1", kill("a", 1), managertest.Kill("b", 2, done, graceful), managertest.Kill("c", 1, stopping, "")), []string{"n1/a", "n1/b"}},
		"the outcome is not known":                     {nil, onNode("n1", managertest.Kill("a", 1, done, "")), []string{"n1/a"}},
		"shown as under way":                           {onNode("n1", managertest.Kill("a", 1, stopping, "")), onNode("n1", kill("a", 1)), []string{"n1/a"}},
		"counted before":                               {onNode("n1", kill("a", 1)), onNode("n1", kill("a", 1)), nil},
		"shown to a new manager":                       {full("n1"), full("n1"), nil},
		"ended while no manager ran":                   {onNode("n1", kill("a", 1)), onNode("n1", kill("b", 60)), []string{"n1/b"}},
		"newer than all shown":                         {full("n1"), onNode("n2", kill("a", 150)), []string{"n2/a"}},
		"displaced long ago":                           {full("n1"), onNode("n1", kill("a", 1)), nil},
		"displaced by its own node":                    {append(full("n1")[:19], onNode("n2", kill("z", 1))...), onNode("n1", kill("a", 50)), nil},
		"of a node that has none there any more":       {full("n1"), onNode("n2", kill("a", 50)), nil},
		"a failed attempt before another":              {onNode("n1", kill("old", 1), attempt("try2", 60)), onNode("n1", attempt("try1", 30)), nil},
		"began before, ended now":                      {full("n1"), onNode("n1", long), []string{"n1/long"}},
		"of a clock that is ahead, displaced long ago": {full("n2"), ahead, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range NewlyEnded(tc.recent, tc.records, nil, since) {
				got = append(got, r.NodeName+"/"+r.ID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
