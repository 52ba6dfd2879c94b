// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"cmp"
	"slices"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// maxBatch is how many nodes get a request in one look.
	maxBatch = 100
	// maxRequests is how many requests a NodeWorkload has room for.
	maxRequests = 16
)

// next are the positions of the nodes that get the request now. Those that never will are
// failed: after a failure, unless failures are ignored.
func (f *facts) next(targets []target) []int {
	if f.stopsAtFailure(targets) {
		return nil
	}
	var waiting []int
	under := 0
	for i := range targets {
		switch t := &targets[i]; {
		case t.open() && t.entered:
			under++
		case !t.open() || t.entered:
		case len(t.share.RequestList()) >= maxRequests:
			t.message = "the node has no room for another request"
			under += t.mayHave()
		case f.unsettled(t.share):
			t.message = "precondition: the node does not run its revision yet"
			under += t.mayHave()
		default:
			waiting = append(waiting, i)
		}
	}
	// Those that may have the request already are the first, or others would get their turn.
	slices.SortStableFunc(waiting, func(a, b int) int { return targets[b].mayHave() - targets[a].mayHave() })
	switch f.kr.Spec.Order {
	case v1alpha1.RequestOrdered:
		return waiting[:min(len(waiting), max(0, 1-under))]
	case v1alpha1.RequestRollOut:
		return f.withinBudget(targets, waiting)
	case v1alpha1.RequestParallel:
	}
	return waiting[:min(len(waiting), maxBatch)]
}

// mayHave is 1 where the node was to get the request and is not known to have it, else 0.
func (t *target) mayHave() int {
	if t.given != "" && !t.entered {
		return 1
	}
	return 0
}

// stopsAtFailure fails the nodes that have not begun where one has failed, and says so.
func (f *facts) stopsAtFailure(targets []target) bool {
	at := slices.IndexFunc(targets, func(t target) bool { return t.phase == v1alpha1.RequestFailed })
	if at < 0 || f.kr.Spec.FailurePolicy == v1alpha1.RequestIgnore {
		return false
	}
	failed := targets[at].node
	for i := range targets {
		if t := &targets[i]; t.open() && !t.entered {
			t.fail("not begun: node %s failed", failed)
		}
	}
	return true
}

// withinBudget are those of the waiting nodes that a roll-out could change now: those that are
// unavailable need no budget. A node whose shim does not respond is waited for.
func (f *facts) withinBudget(targets []target, waiting []int) []int {
	var begun []int
	room := f.room
	for _, i := range waiting {
		switch t := &targets[i]; {
		case !t.responds:
			if !f.unavailable[t.node] { // which room counts already
				room -= t.mayHave()
			}
		case f.unavailable[t.node]:
			begun = append(begun, i)
		case room > 0:
			begun = append(begun, i)
			room--
		default:
			t.message = "waits for maxUnavailable of the ManagedWorkload"
		}
	}
	return begun[:min(len(begun), maxBatch)]
}

// entry is the request as a node gets it.
func (f *facts) entry(t *target) v1alpha1.NodeRequest {
	spec := &f.kr.Spec
	r := v1alpha1.NodeRequest{
		ID: string(f.kr.UID), Name: f.kr.Name, Action: spec.Action, Containers: spec.Containers, Signal: spec.Signal,
		RequestedBy: cmp.Or(spec.RequestedBy, "KillRequest "+f.kr.Name), Reason: spec.Reason, IgnoreFailures: spec.FailurePolicy == v1alpha1.RequestIgnore,
		Ordered: spec.OrderedRecreate, Force: spec.ForceRecreate, GracePeriodSeconds: spec.TerminationGracePeriodSeconds,
		UnreadySeconds: spec.UnreadyGracePeriodSeconds, MinStartedSeconds: spec.MinStartedSeconds,
		Deadline: deadline(f.kr), DryRun: spec.DryRun,
	}
	if p := spec.Precondition; p != nil {
		r.ContainerID = p.ContainerID
		if p.Revision != "" {
			r.TemplateHash = t.share.SpecHash
		}
	}
	return r
}
