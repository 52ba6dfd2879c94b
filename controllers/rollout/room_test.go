// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// A node on which a person asked for kills takes up budget until they are over, before its
// shim has begun too; one whose shim is away counts as at its last report.
func TestKillsTakeUpBudget(t *testing.T) {
	t.Parallel()
	killing := func(n *Node) { n.Killing = true }
	for name, tt := range map[string]struct {
		nodes []Node
		room  int
	}{
		"all are up":           {[]Node{up("a", "new"), up("b", "new")}, 2},
		"one is being killed":  {[]Node{up("a", "new", killing), up("b", "new")}, 1},
		"one is down":          {[]Node{up("a", "new", down), up("b", "new", killing)}, 0},
		"more than is allowed": {[]Node{up("a", "new", down), up("b", "new", down), empty("c")}, -1},
		"its shim is away":     {[]Node{up("a", "new", killing, away)}, 2},
	} {
		in := &Input{Update: "new", Current: "new", Strategy: Strategy{MaxUnavailable: 2}, Nodes: tt.nodes, Now: now}
		if got := Room(in); got != tt.room {
			t.Errorf("%s: room for %d, want %d", name, got, tt.room)
		}
	}
	in := &Input{Update: "new", Current: "old", Strategy: one(), Now: now, Nodes: []Node{up("a", "old", killing), up("b", "old")}}
	if b := Next(in); len(b.Changes) > 1 || len(b.Changes) == 1 && b.Changes[0].Node != 0 {
		t.Errorf("The roll-out changes a node beside the one with kills: %+v", b.Changes)
	}
}
