// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

const (
	// Bounds of the status of a KillRequest.
	maxNodeStates, maxContainerStates, maxMessage = 100, 16, 1024
	maxContainerName, maxContainerID              = 63, 256
	// maxStates is what the states of nodes may take up with their containers, in bytes. What
	// comes after that has no containers, and maxShortMessage. etcd takes objects of 1.5 MiB,
	// with the names of the spec and who owns which field.
	maxStates, maxShortMessage = 128 << 10, 128
)

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
	st.Conditions = f.conditions(st.Phase, st.Message)
	return st
}

// over is the status of a request that cannot be carried out.
func (f *facts) over(message string) v1alpha1.KillRequestStatus {
	now := metav1.NewTime(f.now).Rfc3339Copy()
	message = writes.Limit(message, maxMessage)
	return v1alpha1.KillRequestStatus{
		Phase: v1alpha1.RequestFailed, Message: message, StartTime: &now, CompletionTime: &now,
		Conditions: f.conditions(v1alpha1.RequestFailed, message),
	}
}

// conditions say in the words of kubectl wait what the phase does.
func (f *facts) conditions(phase v1alpha1.RequestPhase, message string) []metav1.Condition {
	conditions := slices.Clone(f.kr.Status.Conditions)
	for kind, when := range map[string]v1alpha1.RequestPhase{
		v1alpha1.ConditionComplete: v1alpha1.RequestSucceeded, v1alpha1.ConditionFailed: v1alpha1.RequestFailed, v1alpha1.ConditionHeld: v1alpha1.RequestHeld,
	} {
		status := metav1.ConditionFalse
		if phase == when {
			status = metav1.ConditionTrue
		} else if meta.FindStatusCondition(conditions, kind) == nil {
			continue
		}
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: kind, Status: status, Reason: string(phase), Message: message, ObservedGeneration: f.kr.Generation,
			LastTransitionTime: metav1.NewTime(f.now).Rfc3339Copy(),
		})
	}
	slices.SortFunc(conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return conditions
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
func (t *target) urgency() int {
	switch {
	case t.remembered:
		return -2
	case t.untaken():
		return -1
	}
	return slices.Index([]v1alpha1.RequestPhase{
		v1alpha1.RequestFailed, v1alpha1.RequestInProgress, v1alpha1.RequestPending, v1alpha1.RequestHeld, v1alpha1.RequestSucceeded,
	}, t.phase)
}

// nodeStates are what the status says of nodes. Those of which nothing else will know what came
// of the request are the first.
func nodeStates(targets []target) []v1alpha1.RequestNodeState {
	sorted := slices.Clone(targets)
	slices.SortStableFunc(sorted, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), cmp.Compare(a.node, b.node))
	})
	var states []v1alpha1.RequestNodeState
	left := maxStates
	for _, t := range sorted[:min(len(sorted), maxNodeStates)] {
		state := v1alpha1.RequestNodeState{
			NodeName: t.node, NodeWorkloadUID: t.given, Phase: t.phase, Message: writes.Limit(t.message, maxMessage),
			Containers: shown(t.containers[:min(len(t.containers), maxContainerStates)]),
		}
		if size := sizeOf(state); size <= left {
			left -= size
		} else {
			state.Message, state.Containers = writes.Limit(t.message, maxShortMessage), nil
		}
		states = append(states, state)
	}
	return states
}

// shown are states of containers as a terminal may show them: they are a node's word.
func shown(reported []v1alpha1.RequestContainerState) []v1alpha1.RequestContainerState {
	states := slices.Clone(reported)
	for i := range states {
		s := &states[i]
		s.Name, s.Message, s.ContainerID = writes.Limit(s.Name, maxContainerName), writes.Limit(s.Message, maxMessage), writes.Limit(s.ContainerID, maxContainerID)
	}
	return states
}

// sizeOf is what a state takes up, too much if it cannot be known.
func sizeOf(state v1alpha1.RequestNodeState) int {
	data, err := json.Marshal(state)
	if err != nil {
		return maxStates + 1
	}
	return len(data)
}
