// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// recordKill takes a step of a kill: it is on the disk before the kill goes on,
// and soon in the API.
func (w *worker) recordKill(rec v1alpha1.KillRecord) {
	if w.pool.stopping() {
		// What fails now fails because this process ends; the next one resumes.
		return
	}
	w.enrich(&rec)
	w.mu.Lock()
	if !slices.ContainsFunc(w.rec.Status.Kills, sameID(rec.ID)) {
		w.rec.Status.KillCount++
	}
	w.rec.Status.Kills = status.AddKill(w.rec.Status.Kills, rec)
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

// enrich adds to a probe's kill why the probe failed.
func (w *worker) enrich(rec *v1alpha1.KillRecord) {
	if rec.Trigger != v1alpha1.TriggerLivenessProbe && rec.Trigger != v1alpha1.TriggerStartupProbe {
		return
	}
	w.mu.Lock()
	known := slices.IndexFunc(w.rec.Status.Kills, sameID(rec.ID))
	if known >= 0 {
		rec.Message = w.rec.Status.Kills[known].Message
	}
	w.mu.Unlock()
	if known >= 0 {
		return
	}
	if failure := w.cfg.Prober.LastFailure(w.id.UID, rec.ContainerID, rec.Trigger); failure != "" {
		rec.Message += ": " + failure
	}
}

// stillUnderWay returns the latest records of the given kills that have not
// ended.
func (w *worker) stillUnderWay(kills []v1alpha1.KillRecord) []v1alpha1.KillRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	var open []v1alpha1.KillRecord
	for _, k := range kills {
		i := slices.IndexFunc(w.rec.Status.Kills, sameID(k.ID))
		if i >= 0 && w.rec.Status.Kills[i].Phase != v1alpha1.KillPhaseDone {
			open = append(open, w.rec.Status.Kills[i])
		}
	}
	return open
}

func sameID(id string) func(v1alpha1.KillRecord) bool {
	return func(r v1alpha1.KillRecord) bool { return r.ID == id }
}
