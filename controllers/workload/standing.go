// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// overall is how far a ManagedWorkload is, in all the words that tell it.
type overall struct {
	// ready is the condition Ready.
	ready conditionState
	// stalls is the condition Stalled where this state does not end without a person, or its
	// zero value.
	stalls conditionState
	// summary is the column STATUS, given whether the workload is stalled.
	summary func(stalled bool) string
}

// rung is a state of a ManagedWorkload, and whether it is in that state.
type rung struct {
	name    string
	applies bool
	state   func() overall
}

// standingOf returns the first state that applies, the worst one.
func standingOf(f *facts, t *tally) overall {
	for _, r := range ladder(f, t) {
		if r.applies {
			return r.state()
		}
	}
	return allReady(f, t)
}

// ladder lists what keeps a ManagedWorkload from being ready, what outweighs the rest first.
// Ready, Stalled and STATUS all go by it.
func ladder(f *facts, t *tally) []rung {
	conflicts, updating, desired := t.by[standingConflict], t.by[standingUpdating], t.desired > 0
	return []rung{
		{"deleting", f.deleting, func() overall {
			return overall{no(v1alpha1.ReasonTerminating, "the object is being deleted"), conditionState{}, always(deletingSummary(f, t))}
		}},
		{"undecided", f.verdict.Undecided, func() overall {
			message := with(f.verdict.Message, "what runs stays, and no node is changed before that is known")
			return overall{no(f.verdict.Reason, message), conditionState{}, always("waiting for admission")}
		}},
		{"refused", !f.verdict.Accepted, func() overall {
			message := fmt.Sprintf("Rejected; what runs stays: %d of %d nodes are ready with it", t.ready, t.desired)
			return overall{no(f.verdict.Reason, message), yes(f.verdict.Reason, f.verdict.Message), always("refused: " + f.verdict.Reason)}
		}},
		{"name conflict", len(conflicts) > 0, func() overall { return conflicting(f, t) }},
		{"updating", len(updating) > 0, func() overall {
			s := onItsWay(f, t, no(updatingReason(f), rollingMessage(f, t)), "")
			s.summary = func(stalled bool) string {
				if !desired {
					return with(with(updatedSummary(f, t, stalled), noNodesSummary(f)), with(misscheduledSummary(f), endingSummary(t)))
				}
				return with(updatedSummary(f, t, stalled), asideSummary(f, t))
			}
			return s
		}},
		{"no node", !desired, func() overall { return withoutNodes(f, t) }},
		{"unreachable", t.reachable() == 0, func() overall {
			return onItsWay(f, t, no(unreachableReason(t), ""), "")
		}},
		{"failed", len(t.by[standingFailed]) > 0, func() overall {
			list := t.by[standingFailed]
			s := onItsWay(f, t, no(v1alpha1.ReasonFailed, with(failedMessage(list), heldMessage(f, t))), "failed on "+nodes(len(list)))
			s.stalls = yes(v1alpha1.ReasonFailed, failedMessage(list))
			s.summary = always(s.summary(false))
			return s
		}},
		{"not ready", len(t.by[standingNotReady]) > 0, func() overall {
			list := t.by[standingNotReady]
			return onItsWay(f, t, no(v1alpha1.ReasonNodesNotReady, with(notReadyMessage(list), heldMessage(f, t))), nodes(len(list))+" not ready")
		}},
		{"young", len(t.by[standingYoung]) > 0, func() overall {
			list := t.by[standingYoung]
			return onItsWay(f, t, no(v1alpha1.ReasonNodesNotReady, with(youngMessage(list), heldMessage(f, t))), nodes(len(list))+" not available yet")
		}},
	}
}

// always is a summary that does not go by whether the workload is stalled.
func always(summary string) func(bool) string { return func(bool) string { return summary } }

// onItsWay is a state that may get better by itself, until it is stalled. Drained and
// unreachable nodes are named beside it.
func onItsWay(f *facts, t *tally, ready conditionState, summary string) overall {
	ready.message = with(with(ready.message, drainedMessage(f)), unreachableMessage(t))
	return overall{ready: ready, summary: func(stalled bool) string {
		all := with(summary, asideSummary(f, t))
		if stalled {
			return "stalled: " + all
		}
		return all
	}}
}

// conflicting: other objects have the names of NodeWorkloads. A roll-out continues beside them.
func conflicting(f *facts, t *tally) overall {
	rolling := len(t.by[standingUpdating]) > 0
	message := conflictMessage(t)
	if rolling {
		message = with(message, rollingMessage(f, t))
	}
	s := onItsWay(f, t, no(reasonNameConflict, message), "")
	if !rolling {
		s.stalls = yes(reasonNameConflict, conflictMessage(t))
	}
	s.summary = func(stalled bool) string {
		summary := "name conflict on " + nodes(len(t.by[standingConflict]))
		if rolling {
			summary = with(summary, updatedSummary(f, t, stalled))
		}
		return with(summary, asideSummary(f, t))
	}
	return s
}

// withoutNodes: there is nothing to run anywhere.
func withoutNodes(f *facts, t *tally) overall {
	reason := v1alpha1.ReasonNoMatchingNodes
	if len(f.drained) > 0 {
		reason = v1alpha1.ReasonNodesDrained
	}
	return overall{ready: yes(reason, with(noNodesMessage(f), misscheduledMessage(f))), summary: always(with(noNodesSummary(f), with(misscheduledSummary(f), endingSummary(t))))}
}

func noNodesSummary(f *facts) string {
	if len(f.drained) > 0 {
		return drainedSummary(f)
	}
	return "no matching nodes"
}

// allReady: the reachable nodes are ready, or have completed.
func allReady(f *facts, t *tally) overall {
	rest := func(message string) string {
		return with(with(with(message, misscheduledMessage(f)), drainedMessage(f)), unreachableMessage(t))
	}
	if len(t.by[standingReady]) == 0 {
		message := with("the containers have completed on every reachable node", heldMessage(f, t))
		return overall{ready: yes(v1alpha1.ReasonCompleted, rest(message)), summary: always(with("completed", asideSummary(f, t)))}
	}
	summary := with(with(with("ready", heldSummary(t)), asideSummary(f, t)), endingSummary(t))
	return overall{ready: yes(v1alpha1.ReasonAllNodesReady, rest(readyMessage(f, t))), summary: always(summary)}
}

// asideSummary counts the nodes that are drained or cannot be reached.
func asideSummary(f *facts, t *tally) (aside string) {
	aside = drainedSummary(f)
	if n := len(t.without); n > 0 {
		aside = with(aside, nodes(n)+" without a shim")
	}
	if n := len(t.silent); n > 0 {
		aside = with(aside, nodes(n)+" not responding")
	}
	return aside
}

// computeStalled is True when nothing gets better without a person: the state itself says
// so, nodes wait for a template that admission refuses, or a roll-out is late.
func computeStalled(f *facts, s overall, late bool) conditionState {
	failed := s.stalls.reason == v1alpha1.ReasonFailed
	switch {
	case f.deleting:
		return no(v1alpha1.ReasonTerminating, "the object is being deleted")
	case s.stalls.status == metav1.ConditionTrue && !failed:
		return s.stalls
	case f.answer.Refused != "" && f.held > 0:
		return yes(reasonNoLongerAdmitted, nodes(f.held)+" without the current template; "+answerMessage(f))
	case failed:
		return s.stalls
	case late:
		return yes(reasonProgressDeadlineExceeded, fmt.Sprintf("no progress for %s%s: %s", f.deadline, inBrackets(since(f.progress.Since)), s.ready.message))
	}
	return no(v1alpha1.ReasonNotStalled, "Not stalled")
}
