// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Reasons of events on a ManagedWorkload; those about creation and deletion are a
// DaemonSet's.
const (
	eventSuccessfulCreate = "SuccessfulCreate"
	eventSuccessfulDelete = "SuccessfulDelete"
	eventFailedCreate     = "FailedCreate"
	eventFailedDelete     = "FailedDelete"
	// eventFailedUpdate: NodeWorkloads could not be given another revision.
	eventFailedUpdate = "FailedUpdate"
	eventAdopted      = "Adopted"
	// eventPutBack: a NodeWorkload that was changed by hand is as it should be again.
	eventPutBack = "PutBack"
	// eventNotPutBack: what was changed by hand can only be changed one way.
	eventNotPutBack = "NotPutBack"
	eventKilled     = "Killed"
	// eventEvicted: a NodeWorkload was evicted and is made again, as a DaemonSet does with a
	// failed Pod.
	eventEvicted = "FailedNodeWorkload"
	// eventRollOut and eventRolledOut: a roll-out begins, and all nodes are available with it.
	eventRollOut   = "RollOutStarted"
	eventRolledOut = "RollOutComplete"
	// eventPaused and eventResumed: spec.paused keeps nodes from the update that the strategy
	// lets go, and no more.
	eventPaused  = "RollOutPaused"
	eventResumed = "RollOutResumed"
	// eventHeld: partition, nodeSelector or OnDelete keeps nodes from the update.
	eventHeld = "RollOutHeld"
	// eventRevisionEdited: a revision was changed by hand and is made again.
	eventRevisionEdited = "RevisionEdited"
	// eventFieldsIgnored: the template has fields that have no effect.
	eventFieldsIgnored = "FieldsIgnored"
	// eventQuotaExceeded: a ResourceQuota has no room for what nodes should get.
	eventQuotaExceeded = "QuotaExceeded"
	// eventBadAnnotation: the annotation for a deletion cannot be used.
	eventBadAnnotation = "BadAnnotation"
)

// maxEventMessage is what the API server takes.
const maxEventMessage = 1000

// announce sends events and sets metrics for what is new in the written status.
func (r *Reconciler) announce(mw *v1alpha1.ManagedWorkload, old, status *v1alpha1.ManagedWorkloadStatus, s *scope, f *facts, done ended) {
	setWorkloadMetrics(mw, status, f)
	setStalledMetric(mw, status)
	setRollOutMetrics(mw, s.rolling, s.memory.progress, f.waits)
	r.announceRollOut(mw, old, status)
	r.announceHolds(mw, old, s, f)
	r.announceKills(mw, done)
	if c, changed := conditionChanged(old, status, v1alpha1.ConditionAccepted); changed && mw.DeletionTimestamp.IsZero() {
		switch {
		case c.Status == metav1.ConditionFalse:
			r.warn(mw, c.Reason, c.Message)
		case len(s.verdict.Ignored) > 0 && !wasAccepted(old, c.ObservedGeneration):
			r.warn(mw, eventFieldsIgnored, "Ignored: "+strings.Join(s.verdict.Ignored, ", "))
		}
	}
	if c, changed := conditionChanged(old, status, v1alpha1.ConditionObjectsAvailable); changed && c.Status == metav1.ConditionFalse {
		r.warn(mw, c.Reason, c.Message)
	}
	if c, changed := conditionChanged(old, status, v1alpha1.ConditionStalled); changed && c.Status == metav1.ConditionTrue &&
		slices.Contains([]string{reasonNameConflict, reasonNoLongerAdmitted, reasonProgressDeadlineExceeded, v1alpha1.ReasonFailed}, c.Reason) {
		r.warn(mw, c.Reason, c.Message)
	}
	if c, changed := conditionChanged(old, status, v1alpha1.ConditionReady); changed && c.Reason == v1alpha1.ReasonNoMatchingNodes {
		r.warn(mw, c.Reason, c.Message)
	}
	r.announceGrace(mw, s, f)
	r.announceQuota(mw, s)
}

// announceRollOut says when a roll-out begins and when all nodes are available with it.
func (r *Reconciler) announceRollOut(mw *v1alpha1.ManagedWorkload, old, status *v1alpha1.ManagedWorkloadStatus) {
	if status.UpdateRevision != old.UpdateRevision {
		r.recorder.Eventf(mw, corev1.EventTypeNormal, eventRollOut, "Rolling out revision %s to %s", status.UpdateRevision, nodes(int(status.DesiredNodes)))
	}
	if status.CurrentRevision != old.CurrentRevision && status.CurrentRevision == status.UpdateRevision && status.UpdatedNodes > 0 {
		r.recorder.Eventf(mw, corev1.EventTypeNormal, eventRolledOut, "Revision %s is available on %s", status.CurrentRevision, nodes(int(status.UpdatedNodes)))
	}
}

// announceGrace sends what is wrong with grace periods, each problem once.
func (r *Reconciler) announceGrace(mw *v1alpha1.ManagedWorkload, s *scope, f *facts) {
	if s.graceProblem != "" && s.graceProblem != s.memory.warned {
		r.warn(mw, eventBadAnnotation, graceNote(f))
	}
	held := ""
	if mw.DeletionTimestamp.IsZero() {
		held = heldNote(f)
	}
	if held != "" && held != s.memory.held {
		r.warn(mw, eventNotPutBack, held)
	}
	s.memory.warned, s.memory.held = s.graceProblem, held
}

// wasAccepted reports whether a status says that the template of a generation is accepted.
func wasAccepted(status *v1alpha1.ManagedWorkloadStatus, generation int64) bool {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}

// ended are kills that have ended and that were not announced before.
type ended struct {
	// newest are those with their texts, and counted further ones without.
	newest, counted []v1alpha1.NodeKillRecord
	// uncounted are how many more there are.
	uncounted map[fleet.Ending]int
}

func (r *Reconciler) announceKills(mw *v1alpha1.ManagedWorkload, done ended) {
	more := 0
	for i := range done.counted {
		k := &done.counted[i]
		fleet.CountKills(fleet.Ending{Trigger: k.Trigger, Outcome: k.Outcome}, 1)
		if endsAll(k.Trigger) {
			more++
		}
	}
	for ending, n := range done.uncounted {
		fleet.CountKills(ending, n)
		if endsAll(ending.Trigger) {
			more += n
		}
	}
	if more > 0 {
		r.recorder.Eventf(mw, corev1.EventTypeNormal, eventKilled, "Killed %d more containers; their NodeWorkloads have events of their own", more)
	}
	for i := range done.newest {
		r.announceKill(mw, &done.newest[i])
	}
}

// endsAll reports whether a trigger ends a NodeWorkload, which may be gone with its events.
func endsAll(trigger v1alpha1.KillTrigger) bool {
	switch trigger { //nolint:exhaustive // the others end containers only
	case v1alpha1.TriggerTermination, v1alpha1.TriggerEvicted, v1alpha1.TriggerNodePressure, v1alpha1.TriggerNodeShutdown,
		v1alpha1.TriggerProcessesLeft:
		return true
	}
	return false
}

func (r *Reconciler) announceKill(mw *v1alpha1.ManagedWorkload, k *v1alpha1.NodeKillRecord) {
	fleet.CountKills(fleet.Ending{Trigger: k.Trigger, Outcome: k.Outcome}, 1)
	if !endsAll(k.Trigger) {
		return
	}
	kind := corev1.EventTypeNormal
	if k.Outcome == v1alpha1.KillOutcomeForced || k.Outcome == v1alpha1.KillOutcomeFailed {
		kind = corev1.EventTypeWarning
	}
	what := "container " + k.Container
	if k.Container == "" {
		what = "processes"
	}
	r.recorder.Event(mw, kind, eventKilled, writes.Limit(fmt.Sprintf("Killed %s on node %s: %s", what, k.NodeName, k.Summary), maxEventMessage))
}

func (r *Reconciler) warn(mw *v1alpha1.ManagedWorkload, reason, message string) {
	r.recorder.Event(mw, corev1.EventTypeWarning, reason, writes.Limit(message, maxEventMessage))
}
