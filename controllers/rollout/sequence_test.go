// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyInput is a roll-out in some state. Nodes become available, and shims do not come back.
func anyInput(t *rapid.T) Input {
	now := time.Unix(100_000, 0)
	mostly := func(what string) bool { return rapid.IntRange(0, 5).Draw(t, what) > 0 }
	in := Input{Update: "new", Current: "old", Now: now, Strategy: Strategy{
		OnDelete: !mostly("rolling"), Paused: !mostly("not paused"), MaxUnavailable: rapid.IntRange(1, 6).Draw(t, "maxUnavailable"),
		Partition: rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "partition"), MinReady: rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(t, "minReady"),
	}}
	revision := rapid.SampledFrom([]string{"old", "old", "new", "other"})
	for i := range rapid.IntRange(0, 20).Draw(t, "nodes") {
		in.Nodes = append(in.Nodes, Node{
			Name: fmt.Sprint("n", i), Desired: mostly("desired"), Selected: mostly("selected"), Refused: !mostly("not refused"), Blocked: !mostly("not blocked"),
			Responds: mostly("responds"), NoShim: !mostly("has a shim"), Present: mostly("present"), Ending: !mostly("stays"),
			Revision: revision.Draw(t, "revision"), Edited: !mostly("not edited"), Observed: mostly("observed"), Reported: mostly("reported"),
			RunsSpec: mostly("runs its spec"), Runs: revision.Draw(t, "runs"), Ready: mostly("ready"),
			ReadySince: now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "ready for")) * time.Second),
		})
	}
	return in
}

// play rolls out until nothing changes, each changed node being available at once.
func play(in *Input, next func() Batch, changed func(int)) (batches [][]string) {
	for range 1000 {
		b := next()
		if len(b.Changes) == 0 && b.Wake == 0 {
			return batches
		}
		var names []string
		for _, c := range b.Changes {
			n := in.Nodes[c.Node]
			names = append(names, n.Name+" "+c.Revision)
			in.Nodes[c.Node] = Node{
				Name: n.Name, Desired: n.Desired, Selected: n.Selected, Refused: n.Refused, Responds: true, Present: true, Revision: c.Revision,
				Observed: true, Reported: true, RunsSpec: true, Runs: c.Revision, Ready: true,
			}
		}
		for _, c := range b.Changes {
			changed(c.Node)
		}
		slices.Sort(names)
		batches = append(batches, names)
		in.Now = in.Now.Add(max(b.Wake, time.Second))
	}
	return append(batches, []string{"without end"})
}

// The batches of a sequence are those that Next decides from all nodes.
func TestSequenceIsNextAgainAndAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := anyInput(t)
		some := whole
		some.Nodes = slices.Clone(whole.Nodes)
		want := play(&whole, func() Batch { return Next(&whole) }, func(int) {})
		s := NewSequence(&some)
		got := play(&some, s.Next, s.Changed)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("batches (-of all nodes +of the sequence):\n%s", diff)
		}
	})
}

// The work for a roll-out grows with its nodes, and not with their square.
func TestSequenceIsLinear(t *testing.T) {
	for _, budget := range []int{1, 50, 5000} {
		in := Input{Update: "new", Current: "old", Now: time.Unix(100_000, 0), Strategy: Strategy{MaxUnavailable: budget}}
		for i := range 5000 {
			in.Nodes = append(in.Nodes, Node{
				Name: fmt.Sprint("n", i), Desired: true, Selected: true, Responds: true, Present: true, Revision: "old", Observed: true, Reported: true,
				RunsSpec: true, Runs: "old", Ready: true,
			})
		}
		s := NewSequence(&in)
		batches := 0
		for b := s.Next(); len(b.Changes) > 0; b = s.Next() {
			batches++
			for _, c := range b.Changes {
				n := &in.Nodes[c.Node]
				n.Revision, n.Runs = "new", "new"
				s.Changed(c.Node)
			}
		}
		if want := 5000 / min(budget, MaxBatch); batches != want || s.looked > 3*len(in.Nodes) {
			t.Errorf("budget %d: %d batches, want %d; they looked %d times at %d nodes", budget, batches, want, s.looked, len(in.Nodes))
		}
	}
}
