// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// saveInterval is how old the file may be while the node has a condition: a process that comes
// next may end the condition that much too early.
const saveInterval = 30 * time.Second

// state is the content of the file.
type state struct {
	// Seen is when each condition was last observed.
	Seen map[corev1.NodeConditionType]time.Time `json:"seen,omitempty"`
}

// restore takes over when an earlier process saw each condition. A file that is damaged, or
// cannot be read, says nothing: the first look comes at once.
func (m *Manager) restore(now time.Time) {
	data, err := os.ReadFile(m.config.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var before state
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err != nil {
		m.config.Logger.Info("Failed to read which pressure the node was under; waiting for the first look", "reason", err.Error())
		return
	}
	m.known.Seen = map[corev1.NodeConditionType]time.Time{}
	for condition, at := range before.Seen {
		age := now.Sub(at) // by the wall clock: it may have been set back
		m.known.Seen[condition] = now.Add(-max(age, 0))
	}
	m.conditions = m.known.Conditions(m.config.Transition, now)
}

// save has it written when each condition was last observed, now and then. A disk that is full or
// hangs does not keep the node from being looked at.
func (m *Manager) save(now time.Time) {
	if m.config.StateFile == "" || !m.saved.IsZero() && (len(m.conditions) == 0 || now.Sub(m.saved) < saveInterval) {
		return
	}
	m.saved = now
	data, err := json.Marshal(state{Seen: m.known.Seen})
	if err != nil {
		m.saver.failed(err)
		return
	}
	m.saver.put(data)
}
