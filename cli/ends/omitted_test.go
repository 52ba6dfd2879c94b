// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// What the bounded lists do not hold any more is counted, but not what recentKills hold.
func TestNotKept(t *testing.T) {
	one, two := on("n1", record("c", time.Minute)), on("n2", record("d", time.Hour))
	one.Status.KillCount, two.Status.KillCount = 5, 1
	mw := &v1alpha1.ManagedWorkload{}
	mw.Status.RecentKills = []v1alpha1.NodeKillRecord{
		{NodeName: "n1", NodeWorkload: "web-n1", KillRecord: record("b", time.Second)},
		{NodeName: "n1", NodeWorkload: "web-n1", KillRecord: record("c", time.Minute)},
		{NodeName: "gone", NodeWorkload: "web-gone", KillRecord: record("a", time.Second)},
	}
	nodes := []v1alpha1.NodeWorkload{one, two}
	all := Collect(mw, nodes)
	for node, want := range map[string]int64{"": 3, "n1": 3, "n2": 0, "n3": 0} {
		if got := NotKept(nodes, all, node); got != want {
			t.Errorf("node %q: %d kills are not kept, want %d", node, got, want)
		}
	}
}

func TestOmittedSentences(t *testing.T) {
	tests := map[string]struct {
		omitted Omitted
		want    []string
	}{
		"nothing":  {},
		"by limit": {Omitted{More: 2}, []string{"2 older ones are not shown; --limit=0 shows all."}},
		"by time":  {Omitted{Older: 1}, []string{"1 is older than --since, by the clock of its node, and not shown."}},
		"by both": {Omitted{More: 1, Older: 2}, []string{
			"1 older ones are not shown; --limit=0 shows all.", "2 are older than --since, by the clocks of their nodes, and not shown.",
		}},
		"one": {Omitted{NotKept: 1}, []string{"Older kills are not kept: 1 more was counted. Events and metrics have it."}},
		"both": {Omitted{More: 1, NotKept: 7}, []string{
			"1 older ones are not shown; --limit=0 shows all.", "Older kills are not kept: 7 more were counted. Events and metrics have them.",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.omitted.Sentences()); diff != "" {
				t.Errorf("sentences (-want +got):\n%s", diff)
			}
		})
	}
}
