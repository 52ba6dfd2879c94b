// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"
)

// Reason is why a node does not get the update revision now.
type Reason string

// Reasons to wait.
const (
	// WaitPaused: spec.paused is set, and nothing else holds the node.
	WaitPaused Reason = "Paused"
	// WaitOnDelete: it changes when its NodeWorkload is deleted.
	WaitOnDelete Reason = "OnDelete"
	// WaitNodeSelector: the node lacks labels of updateStrategy.rollingUpdate.nodeSelector.
	WaitNodeSelector Reason = "NodeSelector"
	// WaitPartition: updateStrategy.rollingUpdate.partition keeps it.
	WaitPartition Reason = "Partition"
	// WaitBudget: so many nodes are unavailable as maxUnavailable allows.
	WaitBudget Reason = "MaxUnavailable"
	// WaitShim: its shim does not respond.
	WaitShim Reason = "ShimNotResponding"
	// WaitNoShim: the node never had a shim.
	WaitNoShim Reason = "ShimNotFound"
	// WaitBlocked: another object is in the place of its NodeWorkload.
	WaitBlocked Reason = "NameConflict"
	// WaitEnding: its NodeWorkload is being deleted; then it gets another.
	WaitEnding Reason = "Terminating"
	// WaitRevision: the revision that it should get was deleted by hand.
	WaitRevision Reason = "RevisionNotFound"
	// WaitQuota: a ResourceQuota has no room for what it would use.
	WaitQuota Reason = "QuotaExceeded"
	// WaitBatch: it is in one of the next batches.
	WaitBatch Reason = "NextBatch"
)

// Holds reports whether a reason is a person's decision: the roll-out is complete
// without the node.
func (r Reason) Holds() bool {
	switch r {
	case WaitOnDelete, WaitNodeSelector, WaitPartition:
		return true
	case WaitPaused, WaitBudget, WaitShim, WaitNoShim, WaitBlocked, WaitEnding, WaitRevision, WaitQuota, WaitBatch:
	}
	return false
}

// MaxBatch is how many nodes one batch changes: a DaemonSet's BurstReplicas.
const MaxBatch = 250

// Input is what a batch is decided from.
type Input struct {
	// Update is the revision that nodes are to have, and Current the one that those keep,
	// or get when they are new, that the update may not reach.
	Update, Current string
	Strategy        Strategy
	Nodes           []Node
	Now             time.Time
	// kept is which nodes the partition keeps, nil before that was computed.
	kept []bool
}

// Change gives a node a revision. A node without a share gets one.
type Change struct {
	Node     int
	Revision string
}

// Batch is what happens next.
type Batch struct {
	// Changes are the nodes to change, the most urgent first, by position in Input.Nodes.
	Changes []Change
	// Waiting is why a node does not have the update revision and does not get it now, by
	// position; "" for the others.
	Waiting []Reason
	// served is how many changes serve new nodes.
	served int
	// Unavailable is how many nodes take up budget before the changes.
	Unavailable int
	// Wake is when to look again although nothing happened: a node has been ready for
	// minReadySeconds. 0 is never.
	Wake time.Duration
}

// urgency orders the changes of a batch.
type urgency int

const (
	// urgencyNew: nothing runs on the node yet.
	urgencyNew urgency = iota
	// urgencyDown: the node is not ready and can only gain, or still runs what it is to
	// have, and nothing is killed.
	urgencyDown
	// urgencyUnsettled: an earlier change is not carried out yet, and took up budget.
	urgencyUnsettled
	// urgencyYoung: the node is ready and not yet available, and so takes up budget already.
	urgencyYoung
	// urgencyUp: the node is available and takes up budget once it is changed.
	urgencyUp
	urgencies
)

// Next decides the next batch. What earlier batches wrote has to be in the facts.
func Next(in *Input) Batch {
	b := Batch{Waiting: make([]Reason, len(in.Nodes))}
	kept := in.partition()
	progressing := 0
	candidates := [urgencies][]int{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		b.count(in, n, &progressing)
		reason, how := in.judge(n, kept[i])
		switch {
		case reason != "":
			b.Waiting[i] = reason
		case how < urgencies:
			candidates[how] = append(candidates[how], i)
		}
	}
	budget := in.Strategy.MaxUnavailable - b.Unavailable
	unsettled := in.Strategy.MaxUnavailable - progressing
	young := 0
	if budget >= 0 { // all that are not available are within the budget
		young = len(in.Nodes)
	}
	b.take(in, candidates[urgencyNew], kept, len(in.Nodes))
	b.served = len(b.Changes) // new nodes have a batch of their own, and hold up no other
	b.take(in, candidates[urgencyDown], kept, len(in.Nodes))
	b.take(in, candidates[urgencyUnsettled], kept, unsettled)
	b.take(in, candidates[urgencyYoung], kept, young)
	b.take(in, candidates[urgencyUp], kept, budget)
	return b
}

// count adds what a node takes up, and when that ends by itself.
func (b *Batch) count(in *Input, n *Node, progressing *int) {
	if !n.counts(&in.Strategy, in.Update, in.Now) {
		return
	}
	b.Unavailable++
	left := n.availableIn(&in.Strategy, in.Now)
	if n.Present && n.Ready && left > 0 && (b.Wake == 0 || left < b.Wake) {
		b.Wake = left
	}
	if n.Present && n.Revision == in.Update && !n.Edited && !n.settled() {
		*progressing++
	}
}

// partition says which nodes the partition keeps.
func (in *Input) partition() []bool {
	if in.kept != nil {
		return in.kept
	}
	kept := make([]bool, len(in.Nodes))
	left := in.Strategy.Partition
	if left == 0 {
		return kept
	}
	for _, i := range inOrder(in.Nodes) {
		if left > 0 && in.Nodes[i].Desired {
			kept[i] = true
			left--
		}
	}
	return kept
}

// hold is why a person keeps a node from the update, "" for none. A node that the strategy
// keeps does not wait for the end of a pause, so that a pause leaves a complete roll-out complete.
func (in *Input) hold(n *Node, kept bool) Reason {
	switch {
	case in.Strategy.OnDelete:
		return WaitOnDelete
	case !n.Selected:
		return WaitNodeSelector
	case kept:
		return WaitPartition
	case in.Strategy.Paused:
		return WaitPaused
	}
	return ""
}

// judge says why a node waits, or how urgent its change is; urgencies for none.
func (in *Input) judge(n *Node, kept bool) (Reason, urgency) {
	switch {
	case n.Has(in.Update):
		return "", urgencies
	case n.Blocked:
		return WaitBlocked, urgencies
	case !n.Present && !n.Desired:
		return "", urgencies
	case !n.Present && n.NoShim:
		return WaitNoShim, urgencies
	case !n.Present:
		return "", urgencyNew
	case n.Ending:
		return WaitEnding, urgencies
	}
	return in.judgeRunning(n, kept)
}

// judgeRunning judges a node that has a share with another revision.
func (in *Input) judgeRunning(n *Node, kept bool) (Reason, urgency) {
	hold, takenBack := in.hold(n, kept), in.takenBack(n, kept)
	switch {
	case takenBack:
		return "", urgencyDown
	case hold != "" && !n.Edited:
		return hold, urgencies
	case !n.Responds:
		return WaitShim, urgencies
	case !n.Ready:
		return "", urgencyDown
	case !n.RunsSpec:
		return "", urgencyUnsettled
	case n.Desired && n.availableIn(&in.Strategy, in.Now) > 0:
		return "", urgencyYoung
	}
	return "", urgencyUp
}

// takenBack reports whether a node has not carried out what it has, and goes back to what it
// runs, which kills nothing: to the update, or because it may not have what it has, or because
// its shim went away before it reported about that, and would carry it out when it is back, beside
// whatever node is being updated then. (One that had begun without a word is changed back.)
func (in *Input) takenBack(n *Node, kept bool) bool {
	if n.RunsSpec || n.Runs == "" {
		return false
	}
	lost := !n.Responds && !n.Reported
	return n.Runs == in.Update || n.Runs != n.Revision && (lost || in.hold(n, kept) != "") || n.Edited && n.Runs == n.Revision
}

// target is the revision that a node gets: one that the update may not reach gets the
// current one when it is new, and what it had when it was edited. A new node gets the update
// under OnDelete, unless the roll-out is paused.
func (in *Input) target(n *Node, kept bool) string {
	hold := in.hold(n, kept)
	switch {
	case n.Present && in.takenBack(n, kept):
		return n.Runs
	case hold == "":
		return in.Update
	case n.Present:
		return n.Revision
	case hold == WaitOnDelete && !in.Strategy.Paused:
		return in.Update
	}
	return in.Current
}

// take adds at most so many candidates to the batch, the last of a partition's order
// first; the others wait.
func (b *Batch) take(in *Input, candidates []int, kept []bool, most int) {
	if len(candidates) == 0 {
		return
	}
	room := MaxBatch - (len(b.Changes) - b.served)
	for _, i := range in.lastFirst(candidates) {
		switch {
		case most <= 0:
			b.Waiting[i] = WaitBudget
		case room <= 0:
			b.Waiting[i] = WaitBatch
		default:
			b.Changes = append(b.Changes, Change{Node: i, Revision: in.target(&in.Nodes[i], kept[i])})
		}
		most--
		room--
	}
}

// lastFirst are nodes in the opposite of a partition's order, so that the first to be
// updated are those that the largest partition lets go. Those that were refused come last.
func (in *Input) lastFirst(candidates []int) []int {
	nodes := make([]Node, len(candidates))
	for i, at := range candidates {
		nodes[i] = in.Nodes[at]
	}
	order := inOrder(nodes)
	slices.Reverse(order)
	var first, last []int
	for _, at := range order {
		if nodes[at].Refused {
			last = append(last, candidates[at])
		} else {
			first = append(first, candidates[at])
		}
	}
	return append(first, last...)
}
