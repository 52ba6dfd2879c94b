// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// The bounds of the API on a record's texts, in bytes.
const (
	maxRecordMessage = 1024
	maxRecordReason  = 256
)

// newRecord begins the record of a kill.
func newRecord(k *kill) v1alpha1.KillRecord {
	now := time.Now()
	rec := v1alpha1.KillRecord{
		ID:          string(uuid.NewUUID()),
		Container:   k.Name,
		ContainerID: k.ID,
		Trigger:     k.Trigger,
		RequestedBy: truncate(k.RequestedBy, maxRecordReason),
		Message:     truncate(k.RecordMessage(), maxRecordMessage),
		Phase:       v1alpha1.KillPhaseStopping,
		StartTime:   metav1.MicroTime{Time: now},
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
	k.mu.Lock()
	edit(&k.rec)
	k.mu.Unlock()
	k.publish()
}

// publish hands a copy of the record to the sink.
func (k *kill) publish() {
	if k.e.kills == nil {
		return
	}
	k.publishing.Lock()
	defer k.publishing.Unlock()
	k.e.kills.Kill(k.pod.UID, plan.KillProgress{Record: k.snapshot()})
}

func (k *kill) snapshot() v1alpha1.KillRecord {
	k.mu.Lock()
	defer k.mu.Unlock()
	return *k.rec.DeepCopy()
}

func truncate(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "")
	}
	return s
}
