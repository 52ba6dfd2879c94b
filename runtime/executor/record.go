// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// The bounds of the API on a record's texts, in bytes.
const (
	maxRecordMessage = 1024
	maxRecordReason  = 256
)

// newRecord begins the record of a kill.
func newRecord(k *kill) v1alpha1.KillRecord {
	now := k.e.clock.Now()
	rec := v1alpha1.KillRecord{
		ID:            string(uuid.NewUUID()),
		Container:     k.Name,
		ContainerID:   k.ID,
		Trigger:       k.Trigger,
		RequestedBy:   text.Cut(k.RequestedBy, maxRecordReason),
		Message:       text.Cut(k.RecordMessage(), maxRecordMessage),
		ChangedFields: slices.Clone(k.ChangedFields),
		Phase:         v1alpha1.KillPhaseStopping,
		StartTime:     metav1.MicroTime{Time: now},
		Grace: v1alpha1.KillGrace{
			Seconds: k.Grace.Seconds, Source: k.Grace.Source,
			Deadline: &metav1.MicroTime{Time: now.Add(seconds(k.Grace.Seconds))},
		},
	}
	if hook := k.PreStop(); hook != nil {
		rec.PreStop = &v1alpha1.KillPreStop{Handler: podspec.HandlerName(hook)}
		if k.PreStopWithin(k.Grace.Seconds) != nil {
			rec.Phase = v1alpha1.KillPhasePreStop
		} else {
			rec.PreStop.Outcome = v1alpha1.PreStopSkipped
		}
	}
	if k.before != nil {
		rec.RestartCount = int32(min(k.before.RestartCount, 1<<30))
		rec.StopSignal = k.before.StopSignal
	}
	return rec
}

// change edits the record and hands it on.
func (k *kill) change(edit func(rec *v1alpha1.KillRecord)) {
	k.edit(edit)
	k.publish()
}

func (k *kill) edit(edit func(rec *v1alpha1.KillRecord)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	edit(&k.rec)
}

// publish hands a copy of the record to the sink.
func (k *kill) publish() {
	if k.e.kills == nil {
		return
	}
	k.publishing.Lock()
	defer k.publishing.Unlock()
	k.e.kills.Kill(k.pod.UID, k.progress())
}

// progress is the record with what a later process needs to continue the kill.
func (k *kill) progress() plan.KillProgress {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := plan.KillProgress{Record: *k.rec.DeepCopy()}
	if p.Record.Phase == v1alpha1.KillPhaseDone {
		return p
	}
	ends := k.ends
	if p.Record.Phase == v1alpha1.KillPhaseStopping && !k.phaseEnd.IsZero() {
		ends = k.phaseEnd // not before the minimum
	}
	p.Note = plan.KillNote{
		BootID: k.e.clock.BootID(), Ends: k.e.clock.SinceBoot() + time.Until(ends), Fresh: k.fresh, Ran: k.ran(),
	}
	if k.open != nil {
		p.Note.Panics = k.open.Note.Panics
	}
	return p
}

// ran is whether the container was seen to run when the kill began.
func (k *kill) ran() bool {
	return k.before != nil && k.before.State == plan.ContainerRunning || k.open != nil && k.open.Note.Ran
}
