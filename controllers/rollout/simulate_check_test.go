// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "slices"

// kept says which nodes the partition keeps: the first desired ones in its order.
func kept(in *Input) []bool {
	kept := make([]bool, len(in.Nodes))
	var desired []int
	for _, i := range inOrder(in.Nodes) {
		if in.Nodes[i].Desired {
			desired = append(desired, i)
		}
	}
	for _, i := range desired[:min(in.Strategy.Partition, len(desired))] {
		kept[i] = true
	}
	return kept
}

// check is what has to be true of every batch.
func (w *world) check(in *Input, b *Batch) {
	kept := kept(in)
	changed := map[int]bool{}
	for _, c := range b.Changes {
		n := &in.Nodes[c.Node]
		changed[c.Node] = true
		switch {
		case b.Waiting[c.Node] != "":
			w.t.Fatalf("%s is changed and waits", n.Name)
		case !slices.Contains(revisionsFor(in, n, kept[c.Node]), c.Revision):
			w.t.Fatalf("%s may not get %s", n.Name, c.Revision)
		case kills(n, c) && !n.Responds:
			w.t.Fatalf("%s is changed although its shim is away", n.Name)
		}
	}
	spent := w.checkBudget(in, b)
	for i := range in.Nodes {
		n := &in.Nodes[i]
		has := n.Present && n.Revision == in.Update && !n.Edited && !n.Ending
		switch reason := b.Waiting[i]; {
		case (n.Desired || n.Present) && !has && !changed[i] && reason == "":
			w.t.Fatalf("%s does not get the revision, and no reason is given", n.Name)
		case reason != "" && !isTrue(in, n, kept[i], reason, spent):
			w.t.Fatalf("%s waits for %s, which is not true", n.Name, reason)
		}
	}
}

// kills reports whether a change ends, now or later, what runs on a node.
func kills(n *Node, c Change) bool { return n.Present && n.Runs != c.Revision }

// isHeld reports whether a person keeps a node from the update.
func isHeld(in *Input, n *Node, kept bool) bool {
	return in.Strategy.Paused || in.Strategy.OnDelete || !n.Selected || kept
}

// isLost reports whether a shim went away before it saw what the node got.
func isLost(n *Node) bool { return !n.Responds && !n.Reported }

// revisionsFor are those that a node may get, none if it may get none.
func revisionsFor(in *Input, n *Node, kept bool) []string {
	held := isHeld(in, n, kept)
	deleted := in.Strategy.OnDelete && !in.Strategy.Paused // then a new node gets the update
	switch {
	case n.Blocked, n.Ending, !n.Present && (n.NoShim || !n.Desired):
		return nil
	case !n.Present && held && !deleted:
		return []string{in.Current}
	case !n.Present:
		return []string{in.Update}
	case n.Edited && (held || n.Runs == n.Revision):
		return []string{n.Revision, n.Runs} // what it had, or what it has not left yet
	case held, isLost(n):
		return []string{n.Runs}
	}
	return []string{in.Update}
}

// isTrue reports whether a reason to wait is a fact.
func isTrue(in *Input, n *Node, kept bool, reason Reason, spent int) bool {
	if (isHeld(in, n, kept) || isLost(n)) && n.Present && !n.Ending && !n.RunsSpec && n.Runs != "" {
		return false // what it has not carried out is taken back
	}
	free := !isHeld(in, n, kept) || n.Edited // what was edited is put back where it is held, too
	return map[Reason]bool{
		WaitPaused:       in.Strategy.Paused && !in.Strategy.OnDelete && n.Selected && !kept,
		WaitOnDelete:     in.Strategy.OnDelete,
		WaitNodeSelector: !n.Selected,
		WaitPartition:    kept,
		WaitBlocked:      n.Blocked,
		WaitEnding:       n.Ending,
		WaitNoShim:       n.NoShim,
		WaitShim:         !n.Responds && free,
		WaitBudget:       spent >= in.Strategy.MaxUnavailable && free,
	}[reason]
}

// checkBudget checks what a batch kills, and returns how many nodes may have spent budget:
// those that take it up, and those that are changed.
func (w *world) checkBudget(in *Input, b *Batch) int {
	before, added, killed, unsettled := 0, 0, 0, 0
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if takesUp(in, n) {
			before++
		}
		if n.Present && n.Ready && n.Revision == in.Update && !n.Edited && !n.Ending && takesUp(in, n) && !n.settled() {
			unsettled++
		}
	}
	replaced := 0
	for _, c := range b.Changes {
		switch n := &in.Nodes[c.Node]; {
		case !n.Ready || !kills(n, c):
		case !n.RunsSpec:
			replaced++
		case takesUp(in, n):
			killed++
		default:
			killed++
			added++
		}
	}
	if killed > 0 && before+added > in.Strategy.MaxUnavailable {
		w.t.Fatalf("%d ready nodes are changed, and %d are not available then, with a budget of %d", killed, before+added, in.Strategy.MaxUnavailable)
	}
	if replaced > 0 && replaced+unsettled > in.Strategy.MaxUnavailable {
		w.t.Fatalf("%d nodes get the update before they carried out an earlier change, beside %d, with a budget of %d", replaced, unsettled, in.Strategy.MaxUnavailable)
	}
	return before + killed
}

// takesUp reports whether a node takes up budget: it is not available, or has something to
// carry out. One whose shim is away counts as at its last report.
func takesUp(in *Input, n *Node) bool {
	available := n.Ready && !n.ReadySince.Add(in.Strategy.MinReady).After(in.Now)
	settled := n.RunsSpec && n.Reported
	switch {
	case n.Blocked, n.NoShim:
		return false
	case n.Responds && n.Desired:
		return !n.Present || n.Ending || !available || !settled
	case n.Responds: // only what the controller does to it counts
		return n.Present && !n.Ending && !settled
	case !n.Desired || n.Present && !n.Observed:
		return false
	case n.Ending:
		return !n.Ready
	}
	return !n.Present || !available || n.Revision == in.Update && !n.RunsSpec
}
