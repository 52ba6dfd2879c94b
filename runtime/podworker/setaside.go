// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// maxPanics is how often continuing a kill may panic before its record is set aside.
const maxPanics = 2

const (
	// setAsideReason is the reason of the event about a record that was set aside.
	setAsideReason  = "KillRecordSetAside"
	setAsideMessage = "continuing this kill panicked %d times; its record was set aside and the container is killed without it"
)

// withoutBad sets aside the records whose continuation has panicked too often, and returns
// the others and those that were set aside.
func (s *scope) withoutBad(open []plan.KillProgress) (good, bad []plan.KillProgress) {
	for _, k := range open {
		if k.Note.Panics < maxPanics {
			good = append(good, k)
			continue
		}
		bad = append(bad, k)
		rec := v1alpha1.KillRecord{
			ID: k.Record.ID, Container: k.Record.Container, ContainerID: k.Record.ContainerID, Trigger: k.Record.Trigger,
			RequestedBy: k.Record.RequestedBy, Message: k.Record.Message, Phase: v1alpha1.KillPhaseDone,
			Grace:     v1alpha1.KillGrace{Seconds: k.Record.Grace.Seconds, Source: k.Record.Grace.Source},
			StartTime: k.Record.StartTime, Error: fmt.Sprintf(setAsideMessage, k.Note.Panics),
		}
		if s.mem.recordKill(plan.KillProgress{Record: rec}, "") {
			s.cfg.Metrics.killEnded(rec)
		}
		s.log.Info("Kill record set aside", "container", rec.Container, "id", rec.ID, "panics", k.Note.Panics)
		s.warn(setAsideReason, "Container "+rec.Container+": "+rec.Error)
	}
	return good, bad
}

// again returns a kill of the same container that has nothing of the record but what names
// the container, why it is killed, and the whole grace period.
func (s *scope) again(k plan.KillProgress) plan.KillProgress {
	return plan.KillProgress{Record: v1alpha1.KillRecord{
		ID: string(uuid.NewUUID()), Container: k.Record.Container, ContainerID: k.Record.ContainerID, Trigger: k.Record.Trigger,
		RequestedBy: plan.RequestedByShim, Phase: v1alpha1.KillPhaseStopping,
		Grace:     v1alpha1.KillGrace{Seconds: max(0, k.Record.Grace.Seconds), Source: k.Record.Grace.Source},
		StartTime: metav1.NewMicroTime(s.cfg.Clock.Now()),
	}}
}

// notePanic counts a panic for each of the kills that were being continued.
func (m *memory) notePanic(open []plan.KillProgress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	notes := maps.Clone(m.rec.KillNotes)
	if notes == nil {
		notes = map[string]plan.KillNote{}
	}
	for _, k := range open {
		note := notes[k.Record.ID]
		note.Panics++
		notes[k.Record.ID] = note
	}
	m.rec.KillNotes = notes
	m.touch()
}
