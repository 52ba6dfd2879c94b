// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// owed are containers that were ended on request or for a change and are to run again. It is not changed.
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

// settleOwed drops what has been started since, and what is not due any more.
func (s *syncer) settleOwed(d desired, observed *plan.PodStatus) {
	s.mem.settleOwed(plan.SettleInput{
		Pod: d.pod, Observed: observed, Definitions: s.define(d.pod), Requests: d.requests,
		Actuated: s.mem.actuated(), Now: s.moment().Wall,
	})
}

// settleOwed keeps what is due by what is noted.
func (m *memory) settleOwed(in plan.SettleInput) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in.Noted, in.Kills = m.rec.Status.Requests, m.rec.Status.Kills
	m.setOwed(m.rec.Owed.Left(in))
}

// setOwed replaces what is due; m.mu is held.
func (m *memory) setOwed(owed plan.Owed) {
	if !maps.Equal(owed, m.rec.Owed) {
		m.rec.Owed = owed
		m.touch()
	}
}
