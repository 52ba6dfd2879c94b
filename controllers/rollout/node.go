// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Node is what is known about a node that runs the workload or should run it.
type Node struct {
	Name string
	// Desired: the template's placement admits it. A node without that runs what it has
	// (it got a taint with the effect NoSchedule, say), and is updated, too.
	Desired bool
	// Selected: it has the labels that the strategy asks for.
	Selected bool
	// Refused: a change of its share failed before; others come first.
	Refused bool
	// Blocked: something that is not the workload's is in the place of its share.
	Blocked bool
	// NoRoom: a quota had no room for a share of it when one was last asked for.
	NoRoom bool
	// Responds: its shim renews its lease.
	Responds bool
	// NoShim: it never had a shim.
	NoShim bool

	// Present: it has a share. The rest says nothing without one.
	Present bool
	// Ending: its share is being deleted.
	Ending bool
	// Revision is that of its share, and Edited says that the share was changed by hand so
	// that it is none of it.
	Revision string
	Edited   bool
	// Observed: a shim has reported about the share.
	Observed bool
	// Reported: the last report is about this generation of the share. Of a node that does
	// not respond that is not asked for.
	Reported bool
	// RunsSpec: what runs by the last report is what the share's spec says.
	RunsSpec bool
	// Runs is the revision that runs by the last report, "" where it is none that is known. A
	// node that waits for an image still runs what it ran.
	Runs string
	// Ready: all containers were ready at the last report, or have succeeded.
	Ready bool
	// Killing: a person asked for kills there that are not over, or keeps containers stopped.
	Killing bool
	// ReadySince is when they became ready; the zero time is long ago.
	ReadySince time.Time
}

// settled reports whether a node has nothing left to carry out.
func (n *Node) settled() bool { return n.RunsSpec && (n.Reported || !n.Responds) }

// availableIn is how long a ready node has still to be ready to be available.
func (n *Node) availableIn(s *Strategy, now time.Time) time.Duration {
	return max(n.ReadySince.Add(s.MinReady).Sub(now), 0)
}

// Available reports whether a node is available, with whatever revision.
func (n *Node) Available(s *Strategy, now time.Time) bool {
	return n.Present && !n.Ending && n.Ready && n.availableIn(s, now) == 0
}

// Updated reports whether a node is known to run the update revision.
func (n *Node) Updated(update string) bool {
	return n.Has(update) && n.settled()
}

// Has reports whether a node's share has a revision, carried out or not.
func (n *Node) Has(revision string) bool {
	return n.Present && !n.Ending && !n.Edited && n.Revision == revision
}

// counts reports whether a node takes up budget.
func (n *Node) counts(s *Strategy, update string, now time.Time) bool {
	switch {
	case n.Blocked, n.NoShim:
		return false // no update can help or harm it
	case !n.Desired:
		return n.Present && !n.Ending && n.Responds && !n.settled() // what it lacks otherwise is no matter of the budget
	case !n.Present:
		return !n.NoRoom // or an update to a template that fits would wait for it
	case !n.Observed && !n.Responds:
		return false // it has nothing of the workload yet
	case n.Ending && !n.Responds:
		return !n.Ready // as at its last report
	case !n.Available(s, now), n.Killing && n.Responds:
		return true
	case !n.Responds && n.Revision != update:
		return false
	}
	return !n.settled()
}

// Room is how many more of the nodes may become unavailable: those that are take up what
// maxUnavailable allows.
func Room(in *Input) int {
	room := in.Strategy.MaxUnavailable
	for i := range in.Nodes {
		if in.Nodes[i].counts(&in.Strategy, in.Update, in.Now) {
			room--
		}
	}
	return room
}

// inOrder are the positions of nodes in the order in which a partition takes them:
// the first ones stay. It depends on their names alone.
func inOrder(nodes []Node) []int {
	keys := make([]uint64, len(nodes))
	order := make([]int, len(nodes))
	for i := range nodes {
		sum := sha256.Sum256([]byte(nodes[i].Name))
		keys[i], order[i] = binary.BigEndian.Uint64(sum[:]), i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(keys[a], keys[b]), cmp.Compare(nodes[a].Name, nodes[b].Name))
	})
	return order
}
