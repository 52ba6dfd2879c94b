// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// owed are containers that were ended on request and are to run again. It is not changed.
func (m *memory) owed() plan.Owed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.Owed
}

// owe notes containers that are to run again.
func (m *memory) owe(more plan.Owed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.oweLocked(more)
}

// oweLocked is owe; m.mu is held.
func (m *memory) oweLocked(more plan.Owed) {
	owed := maps.Clone(m.rec.Owed)
	if owed == nil {
		owed = plan.Owed{}
	}
	maps.Copy(owed, more)
	m.setOwed(owed)
}

// oweByRecords notes what is due by the records alone, where nothing else was noted: an earlier
// version of the shim did not note it, nor is it in an object's status. m.mu is held.
func (m *memory) oweByRecords() {
	more := plan.OwedByRecords(m.rec.Status.Requests, m.rec.Status.Kills)
	maps.DeleteFunc(more, func(name, _ string) bool { return m.rec.Owed[name] != "" })
	m.oweLocked(more)
}

// settleOwed drops what has been started since.
func (m *memory) settleOwed(pod *corev1.Pod, observed *plan.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setOwed(m.rec.Owed.Left(pod, observed))
}

// setOwed replaces what is due; m.mu is held.
func (m *memory) setOwed(owed plan.Owed) {
	if !maps.Equal(owed, m.rec.Owed) {
		m.rec.Owed = owed
		m.touch()
	}
}
