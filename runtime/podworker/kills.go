// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// killedReason is the reason of the event about the end of a kill.
const killedReason = "Killed"

// recordKill takes a step of a kill, and says whether it is the end of it: the first
// one, because a step may be reported more than once. detail is why the probe of a probe's
// kill failed: the summary has it too, the message has the kubelet's words alone.
func (m *memory) recordKill(kill plan.KillProgress, detail string) (ended bool) {
	rec := kill.Record
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.rec.Status.Kills, sameID(rec.ID))
	if i < 0 {
		m.rec.Status.KillCount++
	}
	ended = rec.Phase == v1alpha1.KillPhaseDone && (i < 0 || m.rec.Status.Kills[i].Phase != v1alpha1.KillPhaseDone)
	m.addKill(rec, detail)
	m.keepNote(kill)
	if plan.Owes(&rec) {
		m.oweLocked(plan.Owed{rec.Container: rec.ContainerID})
	}
	m.published.pending, m.published.recalled = true, false
	m.touch()
	if i := slices.IndexFunc(m.rec.Status.Kills, sameID(rec.ID)); ended && i >= 0 {
		m.enqueue([]notice{killedNotice(m.want.reported(), m.rec.Status.Kills[i])})
	}
	return ended
}

// addKill adds a record with a summary of its own; m.mu is held.
func (m *memory) addKill(rec v1alpha1.KillRecord, detail string) {
	details := maps.Clone(m.rec.Details)
	// A record that was taken up again brings the summary of its time.
	rec.Summary = ""
	if detail != "" {
		detailed := rec
		detailed.Message += ": " + detail
		rec.Summary = status.KillSummary(detailed)
		if details == nil {
			details = map[string]string{}
		}
		details[rec.ID] = detail
	}
	if rec.Phase == v1alpha1.KillPhaseDone {
		delete(details, rec.ID)
	}
	m.rec.Details = details
	m.rec.Status.Kills = status.AddKill(m.rec.Status.Kills, rec)
}

// keepNote keeps what is needed to continue a kill, as long as it is under way.
// m.mu is held.
func (m *memory) keepNote(kill plan.KillProgress) {
	notes := maps.Clone(m.rec.KillNotes)
	if kill.Record.Phase == v1alpha1.KillPhaseDone {
		delete(notes, kill.Record.ID)
	} else {
		if notes == nil {
			notes = map[string]plan.KillNote{}
		}
		notes[kill.Record.ID] = kill.Note
	}
	m.rec.KillNotes = notes
}

// detail is what was noted when a kill began about the probe that asked for it.
func (m *memory) detail(id string) (detail string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	detail, known = m.rec.Details[id]
	return detail, known
}

// killedNotice is the event about the end of a kill.
func killedNotice(pod *corev1.Pod, k v1alpha1.KillRecord) notice {
	n := notice{Type: corev1.EventTypeNormal, Reason: killedReason, Message: "Container " + k.Container + ": " + k.Summary}
	if k.Container == "" {
		n.Message = k.Summary
	}
	if pod != nil && k.Container != "" {
		n.FieldPath = podspec.FieldPath(pod, k.Container)
	}
	if k.Outcome == v1alpha1.KillOutcomeForced || k.Outcome == v1alpha1.KillOutcomeFailed {
		n.Type = corev1.EventTypeWarning
	}
	return n
}

func sameID(id string) func(v1alpha1.KillRecord) bool {
	return func(r v1alpha1.KillRecord) bool { return r.ID == id }
}
