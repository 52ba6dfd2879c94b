// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// maxSummary is how long a summary of several parts may become: with the other columns, and
// a name of 20 characters, kubectl get mw has room for so much on a line of 120.
const maxSummary = 53

// computeStatus is the status of a ManagedWorkload that the facts call for; kills
// are not its matter. next is the progress to be remembered. wait is the time until
// the answer may change by itself, 0 for never.
//
// The conditions follow the rules of kstatus: Stalled and Reconciling are never True
// together, and Ready is not True while something refuses or stalls.
func computeStatus(f *facts, old *v1alpha1.ManagedWorkloadStatus) (status v1alpha1.ManagedWorkloadStatus, next rollout.Progress, wait time.Duration) {
	t := f.count()
	status = *old.DeepCopy()
	status.ObservedGeneration = f.generation
	status.DesiredNodes, status.CurrentNodes = count32(t.desired), count32(t.current)
	status.UpdatedNodes, status.ReadyNodes = count32(t.updated), count32(t.ready)
	status.AvailableNodes, status.UnavailableNodes = count32(t.available), count32(t.desired-t.available)
	status.DrainedNodes = count32(len(f.drained))
	status.UnreachableNodes, status.MisscheduledNodes = count32(t.unreachable()), count32(len(f.misscheduled))
	if f.verdict.Accepted {
		status.CurrentRevision, status.UpdateRevision = f.current, f.update
	}

	rolled := f.toRollOut(&t)
	next = f.progress.Next(&rollout.State{
		Revision: f.update, RolledOut: f.rolledOut, Generation: f.generation, Tally: rolled, Paused: f.strategy.Paused,
	}, f.now)
	left := next.Left(f.deadline, f.now)
	s := standingOf(f, &t)
	ready := s.ready
	stalled := computeStalled(f, s, left == 0 && rolled.Left > 0 && ready.status != metav1.ConditionTrue)
	reconciling := computeReconciling(f, &t, ready, stalled)
	status.Summary = fitting(s.summary(stalled.status == metav1.ConditionTrue))

	set := func(kind string, o conditionState) { setCondition(&status.Conditions, f, kind, o) }
	if !f.deleting { // then the template is judged no more
		set(v1alpha1.ConditionAccepted, computeAccepted(f))
		setObjectsAvailable(&status.Conditions, f)
	}
	set(v1alpha1.ConditionReady, ready)
	set(v1alpha1.ConditionReconciling, reconciling)
	set(v1alpha1.ConditionStalled, stalled)
	if f.deleting || next.Done || rolled.Left == 0 || stalled.reason == reasonProgressDeadlineExceeded {
		left = 0
	}
	return status, next, left
}

// toRollOut is how far the roll-out is for its deadline. As long as no node can be reached
// all of them are left.
func (f *facts) toRollOut(t *tally) rollout.Tally {
	rolled := f.rolled
	if rolled.Left == 0 && t.desired > 0 && (t.reachable() == 0 || f.verdict.Undecided) {
		rolled.Left = t.desired
	}
	return rolled
}

func setCondition(conditions *[]metav1.Condition, f *facts, kind string, o conditionState) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               kind,
		Status:             o.status,
		ObservedGeneration: f.generation,
		LastTransitionTime: f.time(),
		Reason:             o.reason,
		Message:            writes.Limit(o.message, maxMessage),
	})
}

// fitting leaves out the last parts of a summary that is too long; conditions have them all.
func fitting(summary string) string {
	const more = "; ..."
	for len(summary) > maxSummary {
		i := strings.LastIndex(strings.TrimSuffix(summary, more), "; ")
		if i < 0 {
			return writes.Limit(summary, maxSummary)
		}
		summary = summary[:i] + more
	}
	return summary
}

// updatedSummary is what a roll-out does and how far it is.
func updatedSummary(f *facts, t *tally, stalled bool) string {
	what := "updating"
	switch {
	case stalled:
		what = "stalled"
	case f.strategy.Paused:
		what = "paused"
	}
	if t.desired == 0 {
		return what
	}
	return fmt.Sprintf("%s %d/%d", what, t.updated, t.reachable())
}

// heldSummary says that nodes keep another revision.
func heldSummary(t *tally) string {
	n := 0
	for _, list := range t.held() {
		n += len(list)
	}
	if n == 0 {
		return ""
	}
	return nodes(n) + " not updated"
}

func misscheduledSummary(f *facts) string {
	if len(f.misscheduled) == 0 {
		return ""
	}
	return "still on " + nodes(len(f.misscheduled))
}

func drainedSummary(f *facts) string {
	if len(f.drained) == 0 {
		return ""
	}
	return nodes(len(f.drained)) + " drained"
}

func deletingSummary(f *facts, t *tally) string {
	s := "deleting, " + nodes(len(f.leaving)) + " left"
	if len(t.stuck) > 0 {
		s += fmt.Sprintf(", %d unreachable", len(t.stuck))
	}
	return s
}

func endingSummary(t *tally) string {
	if len(t.ending)+len(t.stuck) == 0 {
		return ""
	}
	return "ending on " + nodes(len(t.ending)+len(t.stuck))
}

// conditionChanged reports whether a condition came to say something else.
func conditionChanged(old, status *v1alpha1.ManagedWorkloadStatus, kind string) (metav1.Condition, bool) {
	i := slices.IndexFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return metav1.Condition{}, false
	}
	now := status.Conditions[i]
	before := meta.FindStatusCondition(old.Conditions, kind)
	changed := before == nil || before.Status != now.Status || before.Reason != now.Reason ||
		before.Message != now.Message || before.ObservedGeneration != now.ObservedGeneration
	return now, changed
}

// count32 is a number of nodes as the API carries it.
func count32(n int) int32 {
	const most = 1<<31 - 1
	return int32(min(n, most))
}
