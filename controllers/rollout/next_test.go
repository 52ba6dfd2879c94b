// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// up is an available node with a revision.
func up(name, revision string, change ...func(*Node)) Node {
	n := Node{
		Name: name, Desired: true, Selected: true, Responds: true,
		Present: true, Revision: revision, Observed: true, Reported: true, RunsSpec: true, Runs: revision, Ready: true,
	}
	for _, c := range change {
		c(&n)
	}
	return n
}

func down(n *Node)       { n.Ready = false }
func unsettled(n *Node)  { n.RunsSpec, n.Runs = false, "" }
func unreported(n *Node) { n.Reported = false }
func away(n *Node)       { n.Responds = false }
func young(n *Node)      { n.ReadySince = now.Add(-time.Second) }
func edited(n *Node)     { n.Edited = true }
func ending(n *Node)     { n.Ending = true }
func other(n *Node)      { n.Selected = false }
func refused(n *Node)    { n.Refused = true }
func tolerated(n *Node)  { n.Desired = false }
func runsNew(n *Node)    { n.Runs = "new" }
func runsOld(n *Node)    { n.Runs = "old" }

// empty is a node without a share.
func empty(name string, change ...func(*Node)) Node {
	n := Node{Name: name, Desired: true, Selected: true, Responds: true}
	for _, c := range change {
		c(&n)
	}
	return n
}

func one(change ...func(*Strategy)) Strategy {
	s := Strategy{MaxUnavailable: 1}
	for _, c := range change {
		c(&s)
	}
	return s
}

// describe tells a batch by the names of the nodes, sorted.
func describe(in *Input, b *Batch) []string {
	var out []string
	for _, c := range b.Changes {
		out = append(out, fmt.Sprintf("%s: %s", in.Nodes[c.Node].Name, c.Revision))
	}
	for i, reason := range b.Waiting {
		if reason != "" {
			out = append(out, fmt.Sprintf("%s waits: %s", in.Nodes[i].Name, reason))
		}
	}
	slices.Sort(out)
	return out
}

func TestNext(t *testing.T) {
	two := func(s *Strategy) { s.MaxUnavailable = 2 }
	tests := map[string]struct {
		strategy Strategy
		nodes    []Node
		want     []string
		wake     time.Duration
	}{
		"all have it": {strategy: one(), nodes: []Node{up("a", "new"), up("b", "new")}},
		"one at a time": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "old")},
			want: []string{"a: new", "b waits: MaxUnavailable"},
		},
		"two at a time": {strategy: one(two), nodes: []Node{up("a", "old"), up("b", "old")}, want: []string{"a: new", "b: new"}},
		"a node that is not available with it yet takes up the budget": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "new", down)},
			want: []string{"a waits: MaxUnavailable"},
		},
		"a node that waits for its image still runs, and takes up the budget": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "new", unsettled)},
			want: []string{"a waits: MaxUnavailable"},
		},
		"a node that is down needs no budget and goes first": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "old", down)},
			want: []string{"a waits: MaxUnavailable", "b: new"},
		},
		"a node that gets an earlier change still": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "bad", unsettled)},
			want: []string{"a waits: MaxUnavailable", "b: new"},
		},
		"unsettled nodes are changed within the budget, whatever unsettled them": {
			strategy: one(two), nodes: []Node{up("a", "old", unsettled), up("b", "old", unsettled), up("c", "old", unsettled)},
			want: []string{"a: new", "b: new", "c waits: MaxUnavailable"},
		},
		"ready for a second": {
			strategy: one(func(s *Strategy) { s.MinReady = 10 * time.Second }), nodes: []Node{up("a", "old"), up("b", "new", young)},
			want: []string{"a waits: MaxUnavailable"}, wake: 9 * time.Second,
		},
		"all have been ready for a second": {
			strategy: one(func(s *Strategy) { s.MinReady = 10 * time.Second }), nodes: []Node{up("a", "old", young), up("b", "old", young)},
			want: []string{"a waits: MaxUnavailable", "b waits: MaxUnavailable"}, wake: 9 * time.Second,
		},
		"an earlier change that is not available for long enough": {
			strategy: one(func(s *Strategy) { s.MinReady = 10 * time.Second }), nodes: []Node{up("a", "old"), up("b", "bad", young)},
			want: []string{"a waits: MaxUnavailable", "b: new"}, wake: 9 * time.Second,
		},
		"all shims have still to report": {
			strategy: one(), nodes: []Node{up("a", "old", unreported), up("b", "old", unreported)},
			want: []string{"a waits: MaxUnavailable", "b waits: MaxUnavailable"},
		},
		"an earlier change that was not carried out is taken back beside a node that is down": {
			strategy: one(), nodes: []Node{up("a", "new", down), up("b", "bad", unsettled, runsNew)},
			want: []string{"b: new"},
		},
		"what still runs the update is taken back without any budget": {
			strategy: one(), nodes: []Node{up("a", "new", unsettled), up("b", "bad", unsettled, runsNew)},
			want: []string{"b: new"},
		},
		"an earlier change that was not carried out is replaced beside a node that is down": {
			strategy: one(), nodes: []Node{up("a", "new", down), up("b", "bad", unsettled)},
			want: []string{"b: new"},
		},
		"a shim that is away keeps what it has and blocks nothing": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "old", away)},
			want: []string{"a: new", "b waits: ShimNotResponding"},
		},
		"a shim that left a node down takes up the budget": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "old", away, down)},
			want: []string{"a waits: MaxUnavailable", "b waits: ShimNotResponding"},
		},
		"a shim that went away after it got the revision takes up the budget": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "new", away, unsettled)},
			want: []string{"a waits: MaxUnavailable"},
		},
		"a shim that went away before it carried out an earlier change blocks nothing": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "bad", away, unsettled)},
			want: []string{"a: new", "b waits: ShimNotResponding"},
		},
		"a shim that went away before it saw an earlier change has again what it runs": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "bad", away, unsettled, unreported, runsOld), up("c", "bad", away, unsettled, runsOld)},
			want: []string{"a: new", "b: old", "c waits: ShimNotResponding"},
		},
		"a shim that went away before it saw the revision keeps it, and takes up the budget": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "new", away, unsettled, unreported, runsOld)},
			want: []string{"a waits: MaxUnavailable"},
		},
		"what a shim that is away has not carried out yet is taken back": {
			strategy: one(), nodes: []Node{up("a", "new"), up("b", "bad", away, unsettled, runsNew)},
			want: []string{"b: new"},
		},
		"new nodes": {strategy: one(), nodes: []Node{empty("a"), empty("b"), up("c", "old")}, want: []string{"a: new", "b: new", "c waits: MaxUnavailable"}},
		"a node without a shim": {
			strategy: one(), nodes: []Node{empty("a", away, func(n *Node) { n.NoShim = true }), up("b", "old")},
			want: []string{"a waits: ShimNotFound", "b: new"},
		},
		"a node for which a quota has no room": {
			strategy: one(), nodes: []Node{empty("a", func(n *Node) { n.NoRoom = true }), up("b", "old")},
			want: []string{"a: new", "b: new"},
		},
		"a name that is taken": {
			strategy: one(), nodes: []Node{empty("a", func(n *Node) { n.Blocked = true }), up("b", "old")},
			want: []string{"a waits: NameConflict", "b: new"},
		},
		"a share that is being deleted": {strategy: one(), nodes: []Node{up("a", "old"), up("b", "old", ending)}, want: []string{"a waits: MaxUnavailable", "b waits: Terminating"}},
		"a node that is only tolerated is updated, and gets none": {
			strategy: one(two), nodes: []Node{up("a", "old", tolerated), empty("b", tolerated)},
			want: []string{"a: new"},
		},
		"a change that was not carried out is taken back also where the node is held": {
			strategy: one(func(s *Strategy) { s.Paused = true }), nodes: []Node{up("a", "bad", unsettled, runsNew), up("b", "bad", unsettled, runsOld)},
			want: []string{"a: new", "b: old"},
		},
		"what fails on one node does not keep the others waiting": {
			strategy: one(), nodes: []Node{up("a", "old", refused), up("b", "old"), up("c", "old", refused)},
			want: []string{"a waits: MaxUnavailable", "b: new", "c waits: MaxUnavailable"},
		},
		"a dead node whose share is being deleted blocks nothing": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "old", ending, away)},
			want: []string{"a: new", "b waits: Terminating"},
		},
		"a node that is only tolerated and down blocks nothing": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "new", tolerated, down)},
			want: []string{"a: new"},
		},
		"a node that is only tolerated takes up budget while it is changed": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "new", tolerated, unsettled)},
			want: []string{"a waits: MaxUnavailable"},
		},
		"nodes that are only tolerated are changed within the budget, however long they have been ready": {
			strategy: one(func(s *Strategy) { s.MinReady = 10 * time.Second }), nodes: []Node{up("a", "old", young, tolerated), up("b", "old", young, tolerated)},
			want: []string{"a: new", "b waits: MaxUnavailable"},
		},
		"OnDelete": {
			strategy: one(func(s *Strategy) { s.OnDelete = true }), nodes: []Node{up("a", "old", down), empty("b")},
			want: []string{"a waits: OnDelete", "b: new"},
		},
		"paused": {
			strategy: one(func(s *Strategy) { s.Paused = true }), nodes: []Node{up("a", "older", down), empty("b")},
			want: []string{"a waits: Paused", "b: old"},
		},
		"paused, OnDelete": {
			strategy: one(func(s *Strategy) { s.Paused, s.OnDelete = true, true }), nodes: []Node{up("a", "old"), empty("b")},
			want: []string{"a waits: OnDelete", "b: old"},
		},
		"paused, canary": {
			strategy: one(func(s *Strategy) { s.Paused = true }), nodes: []Node{up("a", "old"), up("b", "old", other), empty("c", other)},
			want: []string{"a waits: Paused", "b waits: NodeSelector", "c: old"},
		},
		"paused, partition": {
			strategy: one(func(s *Strategy) { s.Paused, s.Partition = true, 2 }), nodes: []Node{up("a", "old"), up("b", "old"), up("c", "old"), empty("d")},
			want: []string{"a waits: Paused", "b waits: Paused", "c waits: Partition", "d: old"},
		},
		"canary": {
			strategy: one(), nodes: []Node{up("a", "old"), up("b", "old", other, down), empty("c", other)},
			want: []string{"a waits: MaxUnavailable", "b waits: NodeSelector", "c: old"},
		},
		"partition": {
			strategy: one(two, func(s *Strategy) { s.Partition = 2 }), nodes: []Node{up("a", "old"), up("b", "old"), up("c", "old"), up("d", "old", tolerated)},
			want: []string{"a: new", "b waits: Partition", "c waits: Partition", "d: new"},
		},
		"a new node that the partition keeps": {
			strategy: one(func(s *Strategy) { s.Partition = 1 }), nodes: []Node{empty("c"), up("b", "new")},
			want: []string{"c: old"},
		},
		"what was edited is put back, within the budget": {
			strategy: one(), nodes: []Node{up("a", "new", edited), up("b", "old")},
			want: []string{"a: new", "b waits: MaxUnavailable"},
		},
		"what was edited and not carried out is put back at once": {
			strategy: one(), nodes: []Node{up("a", "new", edited, unsettled, runsNew), up("b", "new", down)},
			want: []string{"a: new"},
		},
		"what was edited, is held and not carried out is put back at once": {
			strategy: one(func(s *Strategy) { s.OnDelete = true }), nodes: []Node{up("a", "older", edited, unsettled, func(n *Node) { n.Runs = "older" }), up("b", "new", down)},
			want: []string{"a: older"},
		},
		"what was edited and is held gets what it had": {
			strategy: one(func(s *Strategy) { s.Paused = true }), nodes: []Node{up("a", "older", edited)},
			want: []string{"a: older"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := &Input{Update: "new", Current: "old", Strategy: tc.strategy, Nodes: tc.nodes, Now: now}
			b := Next(in)
			if diff := cmp.Diff(tc.want, describe(in, &b)); diff != "" {
				t.Errorf("batch (-want +got):\n%s", diff)
			}
			if b.Wake != tc.wake {
				t.Errorf("wake after %s, want %s", b.Wake, tc.wake)
			}
		})
	}
}

// A lower partition only adds nodes to the update.
func TestPartitionIsStable(t *testing.T) {
	var nodes []Node
	for i := range 20 {
		nodes = append(nodes, up(fmt.Sprintf("n%02d", i), "old"))
	}
	var before map[int]bool
	for partition := 20; partition >= 0; partition-- {
		in := &Input{Update: "new", Current: "old", Strategy: Strategy{MaxUnavailable: 100, Partition: partition}, Nodes: nodes, Now: now}
		updated := map[int]bool{}
		for _, c := range Next(in).Changes {
			updated[c.Node] = true
		}
		if len(updated) != 20-partition {
			t.Fatalf("%d nodes are updated with a partition of %d", len(updated), partition)
		}
		for i := range before {
			if !updated[i] {
				t.Fatalf("%s was updated with a larger partition", nodes[i].Name)
			}
		}
		before = updated
	}
}

func TestBatchIsBounded(t *testing.T) {
	var nodes []Node
	for i := range MaxBatch + 10 {
		nodes = append(nodes, empty(fmt.Sprint(i)))
	}
	nodes = append(nodes, up("back", "bad", unsettled, runsNew))
	b := Next(&Input{Update: "new", Nodes: nodes, Strategy: one(), Now: now})
	if last := b.Changes[len(b.Changes)-1]; nodes[last.Node].Name != "back" {
		t.Error("new nodes hold up one that is taken back")
	}
	b.Changes = b.Changes[:len(b.Changes)-1]
	waiting := 0
	for _, reason := range b.Waiting {
		if reason == WaitBatch {
			waiting++
		}
	}
	if len(b.Changes) != MaxBatch || waiting != 10 {
		t.Errorf("%d changes, %d wait for the next batch", len(b.Changes), waiting)
	}
}
