// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// A status shows 20 kills. A node that reports many displaces its own older ones, and no more of
// the others' than others report.
func TestMergeKillsSharesTheListOut(t *testing.T) {
	many := func(node, id string, n, from int) []v1alpha1.NodeKillRecord {
		var list []v1alpha1.NodeKillRecord
		for i := range n {
			list = append(list, onNode(node, managertest.Kill(fmt.Sprint(id, i), from+i, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))...)
		}
		return list
	}
	others := func(n int) (list []v1alpha1.NodeKillRecord) {
		for i := range n {
			list = append(list, many(fmt.Sprint("m", i), "real", 1, i)...)
		}
		return list
	}
	tests := map[string]struct {
		recent, records []v1alpha1.NodeKillRecord
		want            map[string]int
		newest, oldest  string
	}{
		"one node has all":            {recent: many("n1", "old", 20, 0), records: many("n1", "new", 15, 100), want: map[string]int{"n1": 20}, newest: "n1/new14", oldest: "n1/old15"},
		"100 beside three of another": {recent: many("n2", "real", 3, 0), records: many("n1", "forged", 100, 100), want: map[string]int{"n1": 17, "n2": 3}, newest: "n1/forged99", oldest: "n2/real0"},
		"100 beside another's 20":     {recent: many("n2", "real", 20, 0), records: many("n1", "forged", 100, 100), want: map[string]int{"n1": 10, "n2": 10}, newest: "n1/forged99", oldest: "n2/real10"},
		"100 beside 19 nodes":         {recent: others(19), records: many("n1", "forged", 100, 100), want: map[string]int{"n1": 1}, newest: "n1/forged99", oldest: "m0/real0"},
		"more nodes than places":      {recent: others(25), want: map[string]int{"m4": 0, "m5": 1}, newest: "m24/real0", oldest: "m5/real0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			merged := MergeKills(tc.recent, tc.records, later)
			got, at := map[string]int{}, func(i int) string { return merged[i].NodeName + "/" + merged[i].ID }
			for node := range tc.want {
				for i := range merged {
					if got[node] += 0; merged[i].NodeName == node {
						got[node]++
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(merged) != 20 {
				t.Errorf("%d kept (-want +got):\n%s", len(merged), diff)
			}
			if at(0) != tc.newest || at(len(merged)-1) != tc.oldest {
				t.Errorf("from %s to %s, want %s to %s", at(0), at(len(merged)-1), tc.newest, tc.oldest)
			}
		})
	}
}

// What a node reports is its word: no record of it reaches a terminal as a command.
func TestShownKillsCommandNoTerminal(t *testing.T) {
	const hostile = "a\x1b[2Jb\u202ec\ad"
	r := managertest.Kill("a", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeFailed)
	r.Summary, r.Message, r.Error, r.Reason, r.RequestedBy = hostile, hostile, hostile, hostile, strings.Repeat("\x1b", 256)
	r.ID, r.Container, r.ContainerID, r.StopSignal, r.ChangedFields = hostile, hostile, hostile, strings.Repeat("\x1b", 32), []string{hostile}
	got := killOf(managertest.NodeWorkload("n1", "mw"), &r)
	const want = `a\u001b[2Jb\u202ec\u0007d`
	if got.Summary != want || got.Message != want || got.Error != want || got.Reason != want {
		t.Errorf("%+v, want %s everywhere", got.KillRecord, want)
	}
	if got.ID != want || got.Container != want || got.ContainerID != want || got.ChangedFields[0] != want {
		t.Errorf("%+v, want %s everywhere", got.KillRecord, want)
	}
	if n := len(got.StopSignal); n != 32 || strings.Contains(got.StopSignal, "\x1b") {
		t.Errorf("stopSignal has %d characters: %q", n, got.StopSignal)
	}
	if n := len(got.RequestedBy); n != 256 || strings.Contains(got.RequestedBy, "\x1b") {
		t.Errorf("requestedBy has %d characters: %q", n, got.RequestedBy)
	}
}
