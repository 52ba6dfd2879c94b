// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import "testing"

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
