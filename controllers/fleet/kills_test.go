// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			if diff := cmp.Diff(tc.want, describeKills(MergeKills(tc.recent, tc.records))); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMergeKillsKeepsTheLast20(t *testing.T) {
	var recent, records []v1alpha1.NodeKillRecord
	for i := range 20 {
		recent = append(recent, onNode("n1", managertest.Kill(fmt.Sprint("old", i), i, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))...)
	}
	for i := range 15 {
		records = append(records, onNode("n2", managertest.Kill(fmt.Sprint("new", i), 100+i, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful))...)
	}
	merged := MergeKills(recent, records)
	if len(merged) != 20 || merged[0].ID != "new14" || merged[19].ID != "old15" {
		t.Errorf("kept %v", describeKills(merged))
	}
	if got := ForcedKills(merged); got != 5 {
		t.Errorf("ForcedKills = %d, want 5", got)
	}
}

func TestNewlyDone(t *testing.T) {
	done, stopping, graceful := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping, v1alpha1.KillOutcomeGraceful
	recent := onNode("n1", managertest.Kill("told", 50, done, graceful), managertest.Kill("begun", 1, stopping, ""))
	records := onNode("n1", managertest.Kill("told", 50, done, graceful), managertest.Kill("late", 60, done, graceful), managertest.Kill("begun", 1, done, graceful),
		managertest.Kill("unknown", 65, done, ""), managertest.Kill("under way", 70, stopping, ""), managertest.Kill("long ago", 2, done, graceful))
	want := []string{"n1/begun Done Graceful", "n1/late Done Graceful", "n1/unknown Done "}
	if diff := cmp.Diff(want, describeKills(NewlyDone(recent, records, managertest.Epoch.Add(10*time.Second)))); diff != "" {
		t.Errorf("newly done (-want +got):\n%s", diff)
	}
}

// A kill of which nobody knows how it ended is over: it is not shown as one under
// way, not counted as forced, and counted under a name of its own.
func TestUnknownOutcome(t *testing.T) {
	done, stopping := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping
	merged := MergeKills(onNode("n1", managertest.Kill("a", 1, done, "")), onNode("n1", managertest.Kill("a", 1, stopping, "")))
	if diff := cmp.Diff([]string{"n1/a Done "}, describeKills(merged)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if n := ForcedKills(merged); n != 0 {
		t.Errorf("ForcedKills = %d", n)
	}
	if got := outcomeLabel(&merged[0]); got != "Unknown" {
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
		recent = MergeKills(recent, onNode("n2", attempt(i, v1alpha1.KillPhaseStopping, "")))
		recent = MergeKills(recent, onNode("n2", attempt(i, done, failed)))
	}
	other := attempt(40, done, failed)
	other.ContainerID = "containerd://2"
	recent = MergeKills(recent, onNode("n2", other))
	want := []string{"n2/try40 Done Failed", "n2/try29 Done Failed", "n1/told Done Forced"}
	if diff := cmp.Diff(want, describeKills(recent)); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	recent = MergeKills(recent, onNode("n2", attempt(50, done, v1alpha1.KillOutcomeGraceful)))
	want = []string{"n2/try50 Done Graceful", "n2/try40 Done Failed", "n1/told Done Forced"}
	if diff := cmp.Diff(want, describeKills(recent)); diff != "" {
		t.Errorf("carried out at last (-want +got):\n%s", diff)
	}
}
