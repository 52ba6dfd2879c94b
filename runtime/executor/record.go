// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The bounds of the API on a record's texts, in bytes.
const (
	maxRecordMessage = 1024
	maxRecordReason  = 256
)

// newRecord begins the record of a kill.
func newRecord(t target, opts KillOptions, grace plan.Grace) v1alpha1.KillRecord {
	now := time.Now()
	rec := v1alpha1.KillRecord{
		ID:          string(uuid.NewUUID()),
		Container:   t.container.Name,
		ContainerID: t.id,
		Trigger:     opts.Trigger,
		RequestedBy: truncate(opts.RequestedBy, maxRecordReason),
		Message:     truncate(storyOf(t, opts), maxRecordMessage),
		Phase:       v1alpha1.KillPhaseStopping,
		StartTime:   metav1.MicroTime{Time: now},
		Grace: v1alpha1.KillGrace{
			Seconds: grace.Seconds, Source: grace.Source,
			Deadline: &metav1.MicroTime{Time: now.Add(seconds(grace.Seconds))},
		},
	}
	if hook := preStopHook(t.container); hook != nil {
		rec.PreStop = &v1alpha1.KillPreStop{Handler: hookKind(hook)}
		if grace.Seconds > 0 {
			rec.Phase = v1alpha1.KillPhasePreStop
		} else {
			rec.PreStop.Outcome = v1alpha1.PreStopSkipped
		}
	}
	if t.before != nil {
		rec.RestartCount = int32(min(t.before.RestartCount, 1<<30))
		rec.StopSignal = t.before.StopSignal
	}
	return rec
}

func storyOf(t target, opts KillOptions) string {
	if opts.Story != "" {
		return opts.Story
	}
	return killingMessage(t, opts)
}

// killingMessage is the message of the event Killing.
func killingMessage(t target, opts KillOptions) string {
	if opts.Message != "" {
		return opts.Message
	}
	return "Stopping container " + t.container.Name
}

// graceOf is the grace period of a kill: an override, or what pod, deletion and
// probe say.
func graceOf(t target, opts KillOptions) plan.Grace {
	if opts.Override == nil {
		return plan.ContainerGrace(t.spec, t.container, opts.Trigger)
	}
	return *opts.Override
}

// preStopHook returns a container's preStop hook, nil if it has none.
func preStopHook(c *corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
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
