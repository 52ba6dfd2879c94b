// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"slices"
	"time"

	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// simulate rolls out until nothing changes any more. Every node that is changed becomes
// available before the next batch, and what is under way ends when all else waits for it.
func (f *forecaster) simulate() {
	in := &f.facts
	sequence := rollout.NewSequence(in)
	for {
		batch := sequence.Next()
		if len(batch.Changes) == 0 && batch.Wake == 0 && !f.settle() {
			f.wait(rollout.Next(in).Waiting)
			return
		}
		var changes []NodeChange
		for _, c := range batch.Changes {
			changes = append(changes, f.change(c))
			in.Nodes[c.Node] = settled(&in.Nodes[c.Node], c.Revision)
			sequence.Changed(c.Node)
		}
		if len(changes) > 0 {
			slices.SortFunc(changes, func(a, b NodeChange) int { return cmp.Compare(a.Node, b.Node) })
			f.out.Batches = append(f.out.Batches, changes)
		}
		in.Now = in.Now.Add(max(batch.Wake, in.Strategy.MinReady, time.Second))
	}
}

// settle ends the kills that were requested and the deletions that are under way on nodes that respond, and reports
// whether there were any.
func (f *forecaster) settle() (was bool) {
	for i := range f.facts.Nodes {
		switch n := &f.facts.Nodes[i]; {
		case !n.Responds:
		case n.Ending:
			*n, was = rollout.Node{Name: n.Name, Desired: n.Desired, Selected: n.Selected, Responds: true}, true
			f.shares[i] = nil
		case n.Killing:
			n.Killing, n.Ready, was = false, true, true
		}
	}
	return was
}

// settled is a node that has carried out its change and is available.
func settled(n *rollout.Node, revision string) rollout.Node {
	return rollout.Node{
		Name: n.Name, Desired: n.Desired, Selected: n.Selected, Responds: true, Present: true, Revision: revision,
		Observed: true, Reported: true, RunsSpec: true, Runs: revision, Ready: true,
	}
}

// change is what one node's change comes to.
func (f *forecaster) change(c rollout.Change) NodeChange {
	out := NodeChange{Node: f.facts.Nodes[c.Node].Name, To: c.Revision, Kills: []Kill{}}
	nw := f.shares[c.Node]
	if nw == nil {
		return out
	}
	hash, before := f.runs(nw)
	out.From = hash
	if after, known := f.made[c.Revision]; known {
		out.Kills = f.killsOfChange(nw, before, after)
	}
	return out
}

// wait lists the nodes that are left, and why.
func (f *forecaster) wait(reasons []rollout.Reason) {
	for i, reason := range reasons {
		if reason != "" {
			f.out.Waiting = append(f.out.Waiting, Waiting{f.facts.Nodes[i].Name, reason})
		}
	}
	slices.SortFunc(f.out.Waiting, func(a, b Waiting) int { return cmp.Compare(a.Node, b.Node) })
}
