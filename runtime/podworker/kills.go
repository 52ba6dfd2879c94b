// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"
	"slices"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// recordKill takes a step of a kill: it is on the disk before the kill goes on,
// and soon in the API.
func (w *worker) recordKill(kill plan.KillProgress) {
	rec := kill.Record
	if w.pool.stopping() {
		// What fails now fails because this process ends; the next one resumes.
		return
	}
	w.mu.Lock()
	if !slices.ContainsFunc(w.rec.Status.Kills, sameID(rec.ID)) {
		w.rec.Status.KillCount++
	}
	w.addKill(rec)
	w.keepNote(kill)
	ended := rec.Phase == v1alpha1.KillPhaseDone && !slices.Contains(w.rec.Unannounced, rec.ID)
	if ended {
		w.rec.Unannounced = append(w.rec.Unannounced, rec.ID)
	}
	w.unpublished = true
	w.mu.Unlock()
	w.log.V(1).Info("Kill", "container", rec.Container, "trigger", rec.Trigger, "phase", rec.Phase, "outcome", rec.Outcome)
	w.save()
	signal(w.publish)
	// A deletion that came while the kill was being set up applies to it too.
	w.wakeUp()
}

// detail is why the probe of a probe's kill failed; it is asked when the kill
// begins, for a new container makes the probe forget it. w.mu is held.
func (w *worker) detail(rec v1alpha1.KillRecord) string {
	if rec.Trigger != v1alpha1.TriggerLivenessProbe && rec.Trigger != v1alpha1.TriggerStartupProbe {
		return ""
	}
	known, ok := w.rec.Details[rec.ID]
	if !ok {
		known = w.cfg.Prober.LastFailure(w.id.UID, rec.ContainerID, rec.Trigger)
	}
	return known
}

// addKill adds a record; its summary tells the detail too, its message has the
// kubelet's words alone. w.mu is held.
func (w *worker) addKill(rec v1alpha1.KillRecord) {
	details := maps.Clone(w.rec.Details)
	// A record that was taken up again brings the summary of its time.
	rec.Summary = ""
	if detail := w.detail(rec); detail != "" {
		told := rec
		told.Message += ": " + detail
		rec.Summary = status.KillSummary(told)
		if details == nil {
			details = map[string]string{}
		}
		details[rec.ID] = detail
	}
	if rec.Phase == v1alpha1.KillPhaseDone {
		delete(details, rec.ID)
	}
	w.rec.Details = details
	w.rec.Status.Kills = status.AddKill(w.rec.Status.Kills, rec)
}

// stillUnderWay returns the latest records of the given kills that have not
// ended.
func (w *worker) stillUnderWay(kills []plan.KillProgress) []plan.KillProgress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(underWay(&w.rec), func(k plan.KillProgress) bool {
		return !slices.ContainsFunc(kills, func(given plan.KillProgress) bool { return given.Record.ID == k.Record.ID })
	})
}

// keepNote keeps what is needed to continue a kill, as long as it is under way.
// w.mu is held.
func (w *worker) keepNote(kill plan.KillProgress) {
	notes := maps.Clone(w.rec.KillNotes)
	if kill.Record.Phase == v1alpha1.KillPhaseDone {
		delete(notes, kill.Record.ID)
	} else {
		if notes == nil {
			notes = map[string]plan.KillNote{}
		}
		notes[kill.Record.ID] = kill.Note
	}
	w.rec.KillNotes = notes
}

func sameID(id string) func(v1alpha1.KillRecord) bool {
	return func(r v1alpha1.KillRecord) bool { return r.ID == id }
}
