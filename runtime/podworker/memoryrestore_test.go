// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// What a checkpoint holds is known again, and is written again only if it belongs to
// another boot.
func TestRestoreOfTheMemory(t *testing.T) {
	deleted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	tests := map[string]struct {
		edit           func(*Checkpoint)
		bootID         string
		deleting, gone bool
		unsaved        bool
	}{
		"as it was":           {func(*Checkpoint) {}, "boot", false, false, false},
		"another boot":        {func(*Checkpoint) {}, "boot2", false, false, true},
		"being deleted":       {func(cp *Checkpoint) { cp.Pod = deleted }, "boot", true, false, false},
		"its object was gone": {func(cp *Checkpoint) { cp.Gone = true }, "boot", true, true, false},
		"an orphan":           {func(cp *Checkpoint) { cp.Orphan = true }, "boot", true, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cp := &Checkpoint{
				Identity: Identity{UID: "a"}, State: Terminating, BootID: "boot", Order: 1, Pod: &corev1.Pod{}, RequestedBy: "kubectl",
				KillNotes: map[string]plan.KillNote{"open": {Fresh: 7}},
			}
			cp.Status.Kills = []v1alpha1.KillRecord{{ID: "open", Phase: v1alpha1.KillPhaseStopping}, {ID: "ended", Phase: v1alpha1.KillPhaseDone}}
			tt.edit(cp)
			m := newMemory(Identity{UID: "a"}, tt.bootID)
			m.restore(cp, &Config{BootID: tt.bootID, Exceeds: func(*corev1.Pod) string { return "" }})
			if known := m.known(); known.Deleting != tt.deleting || known.Gone != tt.gone || known.Pod != cp.Pod || known.Seen {
				t.Errorf("known: %+v", known)
			}
			if open := m.killsUnderWay(); len(open) != 1 || open[0].Record.ID != "open" || open[0].Note.Fresh != 7 {
				t.Errorf("under way: %+v", open)
			}
			if m.state() != Terminating || m.peek().requestedBy != "kubectl" || !m.changed() || m.flushed() {
				t.Errorf("state %s, wanted %+v: it has to be looked at and published", m.state(), m.peek())
			}
			if len(m.rec.Outbox.Notices) != 0 {
				t.Errorf("due: %+v", m.rec.Outbox)
			}
			if _, unsaved := m.unsaved(); unsaved != tt.unsaved {
				t.Errorf("asks for a checkpoint: %t, want %t", unsaved, tt.unsaved)
			}
		})
	}
}

// Only what changes the version is news, for the worker and for the checkpoint.
func TestDemandOfTheMemory(t *testing.T) {
	m := newMemory(Identity{UID: "a"}, "boot")
	if m.demand(func(d desired) desired { return d }) || m.changed() {
		t.Error("nothing new is news")
	}
	if !m.demand(func(d desired) desired { d.deleted, d.version = true, d.version+1; return d }) || !m.changed() {
		t.Error("a deletion is no news")
	}
	if _, unsaved := m.unsaved(); !unsaved {
		t.Error("a deletion asks for no checkpoint")
	}
	if d := m.take(); !d.deleted || m.changed() {
		t.Errorf("taken %+v, changed %t", d, m.changed())
	}
}
