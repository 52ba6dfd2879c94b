// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

const (
	// maxBatch is how many nodes get a request in one look.
	maxBatch = 100
	// maxRequests is how many requests a NodeWorkload has room for.
	maxRequests = 16
	// Bounds of the status of a KillRequest.
	maxNodeStates, maxContainerStates, maxMessage = 100, 16, 1024
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
		case f.unsettled(t.share):
			t.message = "precondition: the node does not run its revision yet"
		default:
			waiting = append(waiting, i)
		}
	}
	switch f.kr.Spec.Order {
	case v1alpha1.RequestOrdered:
		return waiting[:min(len(waiting), max(0, 1-under))]
	case v1alpha1.RequestRollOut:
		return f.withinBudget(targets, waiting)
	case v1alpha1.RequestParallel:
	}
	return waiting[:min(len(waiting), maxBatch)]
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
		case t.unavailable:
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

// status is what came of the request so far.
func (f *facts) status(targets []target) v1alpha1.KillRequestStatus {
	st := v1alpha1.KillRequestStatus{StartTime: f.kr.Status.StartTime, Nodes: int32(len(targets))}
	if st.StartTime == nil {
		st.StartTime = new(metav1.NewTime(f.now).Rfc3339Copy())
	}
	count := map[v1alpha1.RequestPhase]int{}
	for i := range targets {
		count[targets[i].phase]++
	}
	done := count[v1alpha1.RequestSucceeded] + count[v1alpha1.RequestHeld]
	failed := count[v1alpha1.RequestFailed]
	st.DoneNodes, st.FailedNodes = int32(done), int32(failed)
	st.Phase = f.phase(count, len(targets))
	st.Message = fmt.Sprintf("%d of %d nodes done", done, len(targets))
	switch {
	case len(targets) == 0:
		st.Message = "no node that runs the ManagedWorkload is chosen"
	case failed > 0:
		first := targets[slices.IndexFunc(targets, func(t target) bool { return t.phase == v1alpha1.RequestFailed })]
		st.Message += fmt.Sprintf(", %d failed: node %s: %s", failed, first.node, first.message)
	}
	if f.kr.Spec.DryRun {
		st.Message = "dry run: " + st.Message
	}
	st.Message = writes.Limit(st.Message, maxMessage)
	if st.Phase == v1alpha1.RequestSucceeded || st.Phase == v1alpha1.RequestFailed {
		st.CompletionTime = new(metav1.NewTime(f.now).Rfc3339Copy())
	}
	st.NodeStates = nodeStates(targets)
	return st
}

// phase is how far the request is in all.
func (f *facts) phase(count map[v1alpha1.RequestPhase]int, all int) v1alpha1.RequestPhase {
	switch {
	case all > 0 && count[v1alpha1.RequestPending] == all:
		return v1alpha1.RequestPending
	case count[v1alpha1.RequestPending]+count[v1alpha1.RequestInProgress] > 0:
		return v1alpha1.RequestInProgress
	case count[v1alpha1.RequestHeld] > 0, f.holds() && all == 0:
		return v1alpha1.RequestHeld
	case count[v1alpha1.RequestFailed] > 0, all == 0:
		return v1alpha1.RequestFailed
	}
	return v1alpha1.RequestSucceeded
}

// urgency orders nodes in the status.
func urgency(phase v1alpha1.RequestPhase) int {
	return slices.Index([]v1alpha1.RequestPhase{
		v1alpha1.RequestFailed, v1alpha1.RequestInProgress, v1alpha1.RequestPending, v1alpha1.RequestHeld, v1alpha1.RequestSucceeded,
	}, phase)
}

func nodeStates(targets []target) []v1alpha1.RequestNodeState {
	sorted := slices.Clone(targets)
	slices.SortStableFunc(sorted, func(a, b target) int {
		return cmp.Or(cmp.Compare(urgency(a.phase), urgency(b.phase)), cmp.Compare(a.node, b.node))
	})
	var states []v1alpha1.RequestNodeState
	for _, t := range sorted[:min(len(sorted), maxNodeStates)] {
		states = append(states, v1alpha1.RequestNodeState{
			NodeName: t.node, Phase: t.phase, Message: writes.Limit(t.message, maxMessage),
			Containers: t.containers[:min(len(t.containers), maxContainerStates)],
		})
	}
	return states
}
