// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var killEpoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// kill makes a record that began second seconds after the epoch.
func kill(id string, second int, phase v1alpha1.KillPhase, outcome v1alpha1.KillOutcome) v1alpha1.KillRecord {
	start := killEpoch.Add(time.Duration(second) * time.Second)
	r := v1alpha1.KillRecord{
		ID: id, Container: "app", Trigger: v1alpha1.TriggerTermination, Phase: phase, Outcome: outcome,
		Grace: v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod}, StartTime: metav1.NewMicroTime(start),
	}
	if phase == v1alpha1.KillPhaseDone {
		r.FinishTime = &metav1.MicroTime{Time: start.Add(time.Second)}
	}
	return r
}

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
			recent:  onNode("n1", kill("a", 1, done, graceful)),
			records: append(onNode("n2", kill("a", 3, stopping, "")), onNode("n1", kill("b", 2, done, forced))...),
			want:    []string{"n2/a Stopping ", "n1/b Done Forced", "n1/a Done Graceful"},
		},
		"a kill that ended": {
			recent:  onNode("n1", kill("a", 1, stopping, "")),
			records: onNode("n1", kill("a", 1, done, forced)),
			want:    []string{"n1/a Done Forced"},
		},
		"a late word of a kill that ended": {
			recent:  onNode("n1", kill("a", 1, done, forced)),
			records: onNode("n1", kill("a", 1, stopping, "")),
			want:    []string{"n1/a Done Forced"},
		},
		"the same time on two nodes": {
			records: append(onNode("n2", kill("a", 1, done, graceful)), onNode("n1", kill("a", 1, done, graceful))...),
			want:    []string{"n1/a Done Graceful", "n2/a Done Graceful"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, describeKills(mergeKills(tc.recent, tc.records))); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMergeKillsKeepsTheLast20(t *testing.T) {
	var recent, records []v1alpha1.NodeKillRecord
	for i := range 20 {
		recent = append(recent, onNode("n1", kill(fmt.Sprint("old", i), i, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))...)
	}
	for i := range 15 {
		records = append(records, onNode("n2", kill(fmt.Sprint("new", i), 100+i, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful))...)
	}
	merged := mergeKills(recent, records)
	if len(merged) != 20 || merged[0].ID != "new14" || merged[19].ID != "old15" {
		t.Errorf("kept %v", describeKills(merged))
	}
	if got := forcedKills(merged); got != 5 {
		t.Errorf("forcedKills = %d, want 5", got)
	}
}

func TestNewlyDone(t *testing.T) {
	done, stopping, graceful := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping, v1alpha1.KillOutcomeGraceful
	recent := onNode("n1", kill("told", 50, done, graceful), kill("begun", 1, stopping, ""))
	records := onNode("n1", kill("told", 50, done, graceful), kill("late", 60, done, graceful), kill("begun", 1, done, graceful),
		kill("unknown", 65, done, ""), kill("under way", 70, stopping, ""), kill("long ago", 2, done, graceful))
	want := []string{"n1/begun Done Graceful", "n1/late Done Graceful", "n1/unknown Done "}
	if diff := cmp.Diff(want, describeKills(newlyDone(recent, records, killEpoch.Add(10*time.Second)))); diff != "" {
		t.Errorf("newly done (-want +got):\n%s", diff)
	}
}

// A kill of which nobody knows how it ended is over: it is not shown as one under
// way, not counted as forced, and counted under a name of its own.
func TestUnknownOutcome(t *testing.T) {
	done, stopping := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping
	merged := mergeKills(onNode("n1", kill("a", 1, done, "")), onNode("n1", kill("a", 1, stopping, "")))
	if diff := cmp.Diff([]string{"n1/a Done "}, describeKills(merged)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if n := forcedKills(merged); n != 0 {
		t.Errorf("forcedKills = %d", n)
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
		"written just now":     {lastWrite: killEpoch, wantWait: 10 * time.Second},
		"written a while ago":  {lastWrite: killEpoch.Add(-4 * time.Second), wantWait: 6 * time.Second},
		"written long ago":     {lastWrite: killEpoch.Add(-11 * time.Second), want: true},
		"written 10 s ago":     {lastWrite: killEpoch.Add(-10 * time.Second), want: true},
		"the clock went back ": {lastWrite: killEpoch.Add(time.Second), wantWait: 11 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, wait := killsDue(killEpoch, tc.lastWrite, 10*time.Second)
			if got != tc.want || wait != tc.wantWait {
				t.Errorf("killsDue = %v after %s, want %v after %s", got, wait, tc.want, tc.wantWait)
			}
		})
	}
}

func nodeWorkload(node string, owner types.UID, records ...v1alpha1.KillRecord) *v1alpha1.NodeWorkload {
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: owner}}
	nw := &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + node, UID: types.UID("uid-" + node)},
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: node},
		Status:     v1alpha1.NodeWorkloadStatus{Kills: records},
	}
	if owner != "" {
		nw.OwnerReferences = []metav1.OwnerReference{ownerReference(mw)}
	}
	return nw
}

func TestLedgerKeepsLastWords(t *testing.T) {
	done, stopping := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping
	l := newKillLedger()
	first := nodeWorkload("n1", "mw", kill("a", 1, stopping, ""))
	l.observe(nil, first)
	if l.allGone("mw") {
		t.Error("allGone before the NodeWorkload is gone")
	}
	begun := l.pending("mw")
	last := nodeWorkload("n1", "mw", kill("a", 1, done, v1alpha1.KillOutcomeForced))
	l.gone(last)
	l.settled("mw", begun, killEpoch) // the status that was written shows an earlier state
	if diff := cmp.Diff([]string{"n1/a Done Forced"}, describeKills(l.pending("mw"))); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if !l.allGone("mw") {
		t.Error("not allGone after the NodeWorkload is gone")
	}
	l.settled("mw", l.pending("mw"), killEpoch.Add(time.Second))
	if got := l.pending("mw"); len(got) != 0 {
		t.Errorf("pending after it was written: %v", describeKills(got))
	}
	if got := l.lastWrite("mw"); !got.Equal(killEpoch.Add(time.Second)) {
		t.Errorf("lastWrite = %s", got)
	}
}

func TestLedgerTakesEachRecordOnce(t *testing.T) {
	l := newKillLedger()
	old := nodeWorkload("n1", "mw", kill("a", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful))
	l.observe(nil, old)
	l.settled("mw", l.pending("mw"), killEpoch)
	nw := old.DeepCopy()
	nw.Status.Kills = append([]v1alpha1.KillRecord{kill("b", 2, v1alpha1.KillPhaseStopping, "")}, nw.Status.Kills...)
	l.observe(old, nw)
	l.gone(nw)
	if diff := cmp.Diff([]string{"n1/b Stopping "}, describeKills(l.pending("mw"))); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

func TestLedgerLetsOrphansGo(t *testing.T) {
	l := newKillLedger()
	old := nodeWorkload("n1", "mw")
	l.observe(nil, old)
	l.observe(old, nodeWorkload("n1", ""))
	if !l.allGone("mw") {
		t.Error("an orphaned NodeWorkload still counts")
	}
	l.gone(nodeWorkload("n2", ""))
	l.forget(types.NamespacedName{Name: "web"})
	if len(l.books) != 0 {
		t.Errorf("%d books left", len(l.books))
	}
}
