// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The checkpoint of a workload of which nothing is left is not written again: a
// process that comes later would take it for one that is still there.
func TestNoCheckpointAfterTheEnd(t *testing.T) {
	m := newMemory(Identity{UID: "a"}, "boot")
	m.touch()
	if cp, _ := m.snapshot(); cp == nil {
		t.Fatal("a change is not worth a checkpoint")
	}
	m.finalize()
	m.touch()
	if cp, _ := m.snapshot(); cp != nil {
		t.Errorf("checkpoint %+v after the end, want none", cp)
	}
	if _, unsaved := m.unsaved(); unsaved {
		t.Error("a kill would wait for a checkpoint that is never written")
	}
}

// What a later process needs to know asks for a checkpoint when it changes.
func TestChangesAreUnsaved(t *testing.T) {
	changes := map[string]func(*memory){
		"what containers were given": func(m *memory) { m.keepActuated(map[string]plan.Resources{"c": {CPURequest: 100}}) },
		"the template":               func(m *memory) { m.noteTemplate(desired{hash: "hash"}) },
		"the back-off":               func(m *memory) { m.keepBackoff(map[string]*plan.Backoff{"c": {}}) },
		"an event":                   func(m *memory) { m.notify(notice{Reason: "Killing"}) },
		"the state":                  func(m *memory) { m.advance(stateInput{terminate: true, deleted: true}) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			m := newMemory(Identity{UID: "a"}, "boot")
			change(m)
			if cp, _ := m.snapshot(); cp == nil {
				t.Error("not worth a checkpoint")
			}
		})
	}
}

// What stays as it is asks for none: there is one for each sync.
func TestNoCheckpointWithoutAChange(t *testing.T) {
	m := newMemory(Identity{UID: "a"}, "boot")
	for range 2 {
		m.keepActuated(map[string]plan.Resources{"c": {CPURequest: 100}})
		m.noteTemplate(desired{hash: "hash"})
		_, revision := m.snapshot()
		m.saved(revision)
	}
	if _, revision := m.snapshot(); revision != 2 {
		t.Errorf("revision %d, want 2: a change each", revision)
	}
}
