// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The grace period of a termination only shrinks, and a smaller one asks for a
// checkpoint.
func TestShrinkGraceOfTheMemory(t *testing.T) {
	pod, deletion, override := v1alpha1.GraceSourcePod, v1alpha1.GraceSourceDeletion, v1alpha1.GraceSourceOverride
	none := plan.Grace{}
	tests := map[string]struct {
		before             plan.Grace
		deletion, override *int64
		want               plan.Grace
		unsaved            bool
	}{
		"the template's":                 {none, nil, nil, plan.Grace{Seconds: 30, Source: pod}, true},
		"the same again":                 {plan.Grace{Seconds: 30, Source: pod}, nil, nil, plan.Grace{Seconds: 30, Source: pod}, false},
		"a deletion's":                   {none, new(int64(10)), nil, plan.Grace{Seconds: 10, Source: deletion}, true},
		"a longer deletion at the begin": {none, new(int64(60)), nil, plan.Grace{Seconds: 60, Source: deletion}, true},
		"a shorter deletion later":       {plan.Grace{Seconds: 30, Source: pod}, new(int64(5)), nil, plan.Grace{Seconds: 5, Source: deletion}, true},
		"a longer deletion later":        {plan.Grace{Seconds: 30, Source: pod}, new(int64(60)), nil, plan.Grace{Seconds: 30, Source: pod}, false},
		"an override":                    {none, new(int64(10)), new(int64(3)), plan.Grace{Seconds: 3, Source: override}, true},
		"no time":                        {plan.Grace{Seconds: 30, Source: pod}, new(int64(0)), nil, plan.Grace{Seconds: 1, Source: deletion}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMemory(Identity{UID: "a"}, "boot")
			m.rec.Grace, m.rec.GraceSource = tt.before.Seconds, tt.before.Source
			d := desired{pod: &corev1.Pod{}, requestedBy: "kubectl"}
			d.pod.Spec.TerminationGracePeriodSeconds, d.pod.DeletionGracePeriodSeconds = new(int64(30)), tt.deletion
			got := m.shrinkGrace(plan.Termination{Override: tt.override}, d)
			if kept := (plan.Grace{Seconds: m.rec.Grace, Source: m.rec.GraceSource}); got != tt.want || kept != tt.want {
				t.Errorf("grace %v, kept %v, want %v", got, kept, tt.want)
			}
			if _, unsaved := m.unsaved(); unsaved != tt.unsaved {
				t.Errorf("asks for a checkpoint: %t, want %t", unsaved, tt.unsaved)
			}
			if m.rec.RequestedBy != "kubectl" {
				t.Errorf("requested by %q", m.rec.RequestedBy)
			}
		})
	}
}

// What a later process needs to continue a kill is kept until its end, which is
// announced once, however often a step is reported.
func TestRecordKillOfTheMemory(t *testing.T) {
	const hook, stopping, done = v1alpha1.KillPhasePreStop, v1alpha1.KillPhaseStopping, v1alpha1.KillPhaseDone
	tests := map[string]struct {
		steps            []v1alpha1.KillPhase
		note             bool
		ended, announced int
	}{
		"under way":                 {[]v1alpha1.KillPhase{hook}, true, 0, 0},
		"a later phase":             {[]v1alpha1.KillPhase{hook, stopping}, true, 0, 0},
		"ended":                     {[]v1alpha1.KillPhase{hook, stopping, done}, false, 1, 1},
		"ended at its first step":   {[]v1alpha1.KillPhase{done}, false, 1, 1},
		"the end is reported again": {[]v1alpha1.KillPhase{stopping, done, done}, false, 1, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMemory(Identity{UID: "a"}, "boot")
			ended := 0
			for i, phase := range tt.steps {
				kill := plan.KillProgress{
					Record: v1alpha1.KillRecord{ID: "k", Container: "app", Phase: phase},
					Note:   plan.KillNote{BootID: "boot", Fresh: int64(i + 1)},
				}
				m.beginDispatch()
				if m.recordKill(kill, "probe detail") {
					ended++
				}
				if !m.published.pending {
					t.Errorf("step %d is not to be published", i)
				}
			}
			last := int64(len(tt.steps))
			if note, known := m.rec.KillNotes["k"]; known != tt.note || known && note.Fresh != last {
				t.Errorf("note %+v, known %t", note, known)
			}
			if _, known := m.detail("k"); known != tt.note {
				t.Errorf("the detail of the probe is kept: %t", known)
			}
			if open := m.killsUnderWay(); (len(open) == 1) != tt.note || tt.note && open[0].Note.Fresh != last {
				t.Errorf("under way: %+v", open)
			}
			if ended != tt.ended || len(m.rec.Outbox.Notices) != tt.announced || m.rec.Status.KillCount != 1 {
				t.Errorf("ended %d times, announced %d times, counted %d, want %d, %d and 1", ended, len(m.rec.Outbox.Notices), m.rec.Status.KillCount, tt.ended, tt.announced)
			}
			if _, unsaved := m.unsaved(); !unsaved {
				t.Error("no checkpoint is asked for")
			}
		})
	}
}
