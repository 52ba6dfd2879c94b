// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"
)

// disk is how much of the memory is in the checkpoint.
type disk struct {
	// revision counts the changes; saved is the one that the checkpoint has.
	revision, saved int64
	// stated is the first revision that has the latest state; 0 where it was restored.
	stated int64
	// final says that there will be no checkpoint any more.
	final bool
	// trouble is why the checkpoint is not written, "" if it is.
	trouble string
}

// touch notes a change that a checkpoint must have; m.mu is held.
func (m *memory) touch() { m.disk.revision++ }

// snapshot returns the checkpoint of now and its revision; nil if the latest is saved
// or there will be none any more.
func (m *memory) snapshot() (*Checkpoint, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disk.final || m.disk.saved == m.disk.revision {
		return nil, m.disk.revision
	}
	cp := m.rec
	m.rec.Status.DeepCopyInto(&cp.Status)
	cp.Outbox.Notices = slices.Clone(m.rec.Outbox.Notices)
	cp.Previous = m.want.previous
	cp.Pod, cp.PodHash, cp.Generation = m.want.pod, m.want.hash, m.want.generation
	cp.Ran = m.want.ran
	cp.Gone, cp.Orphan, cp.RequestedBy = m.want.gone, m.want.orphan, m.want.requestedBy
	cp.Termination = m.want.asked
	cp.RestartBackoff, cp.Requests = m.want.restartBackoff, m.want.requests
	return &cp, m.disk.revision
}

// unsaved returns the latest revision, and whether it has to be saved.
func (m *memory) unsaved() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.revision, !m.disk.final && m.disk.saved != m.disk.revision
}

// saved notes that the checkpoint has a revision.
func (m *memory) saved(revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk.saved = max(m.disk.saved, revision)
}

// finalize says that there will be no checkpoint any more.
func (m *memory) finalize() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk.final = true
}

// setSaveError notes why the checkpoint is not written, "" if it is, and says whether
// that is news.
func (m *memory) setSaveError(message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.disk.trouble != message
	m.disk.trouble = message
	return changed
}

func (m *memory) identity() Identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.Identity
}
