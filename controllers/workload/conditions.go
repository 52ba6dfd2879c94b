// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Reasons that only the manager gives.
const (
	// reasonAdmissionPending: the API server could not be asked yet whether it
	// admits the template.
	reasonAdmissionPending = "AdmissionPending"
	// reasonNameConflict: another object has the name of a NodeWorkload.
	reasonNameConflict = "NameConflict"
	// reasonNoLongerAdmitted: admission would not let the template pass any more.
	reasonNoLongerAdmitted = "NoLongerAdmitted"
	// reasonPaused: spec.paused keeps a roll-out from continuing.
	reasonPaused = "Paused"
	// reasonProgressDeadlineExceeded: a roll-out made no progress for its deadline.
	reasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)

// maxMessage keeps a condition's message below the API's limit of 32 KiB.
const maxMessage = 16 * 1024

// conditionState is a condition without its type, generation and times.
type conditionState struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

func yes(reason, message string) conditionState {
	return conditionState{metav1.ConditionTrue, reason, message}
}
func no(reason, message string) conditionState {
	return conditionState{metav1.ConditionFalse, reason, message}
}

// computeAccepted says whether the template is accepted, and whether the annotation for a
// deletion can be read.
func computeAccepted(f *facts) conditionState {
	v, message := f.verdict, with(with(f.verdict.Message, graceNote(f)), answerMessage(f))
	switch {
	case v.Accepted:
		return yes(v.Reason, message)
	case v.Undecided:
		return conditionState{metav1.ConditionUnknown, v.Reason, message}
	}
	return no(v.Reason, message)
}

// computeReconciling is True while the nodes are on their way.
func computeReconciling(f *facts, t *tally, ready, stalled conditionState) conditionState {
	switch {
	case f.deleting:
		message := nodes(len(f.leaving)) + " left"
		if len(t.stuck) > 0 {
			message += "; no shim responds on " + names(t.stuck)
		}
		return yes(v1alpha1.ReasonTerminating, with(message, graceNote(f)))
	case stalled.status == metav1.ConditionTrue:
		return no(stalled.reason, "stalled: see the condition "+v1alpha1.ConditionStalled)
	case f.verdict.Undecided:
		return yes(f.verdict.Reason, f.verdict.Message)
	case ready.status != metav1.ConditionTrue:
		return yes(ready.reason, ready.message)
	case f.rolled.Left > 0:
		return yes(v1alpha1.ReasonUpdating, with("not all nodes are updated", misscheduledMessage(f)))
	case len(t.ending) > 0:
		return yes(v1alpha1.ReasonUpdating, "ending on nodes that the template does not admit: "+names(t.ending))
	}
	return no(ready.reason, ready.message)
}

// answerMessage says what follows from what admission would make now of the template that
// it admitted; "" when that is the same.
func answerMessage(f *facts) string {
	switch {
	case f.answer.Refused != "":
		return "what runs stays and no other node gets the template, because admission would refuse it now: " + f.answer.Refused
	case f.answer.Changed:
		return "admission would change the template now; what it admitted stays"
	}
	return ""
}

func updatingReason(f *facts) string {
	if f.strategy.Paused {
		return reasonPaused
	}
	return v1alpha1.ReasonUpdating
}

func unreachableReason(t *tally) string {
	if len(t.silent) == 0 {
		return v1alpha1.ReasonShimNotFound
	}
	return v1alpha1.ReasonLeaseExpired
}

func unreachableMessage(t *tally) string {
	var parts []string
	if len(t.without) > 0 {
		parts = append(parts, nodes(len(t.without))+" without a shim: "+names(t.without))
	}
	if len(t.silent) > 0 {
		parts = append(parts, "the shim does not respond on "+names(t.silent))
	}
	return strings.Join(parts, "; ")
}

func conflictMessage(t *tally) string {
	var parts []string
	list := t.by[standingConflict]
	for _, n := range list[:min(len(list), maxDescribed)] {
		parts = append(parts, n.conflict)
	}
	return strings.Join(parts, "; ") + andMore(len(list)-maxDescribed)
}

// names lists up to five nodes.
func names(list []string) string {
	const most = 5
	return strings.Join(list[:min(len(list), most)], ", ") + andMore(len(list)-most)
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// with joins two sentences, either of which may be empty.
func with(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
