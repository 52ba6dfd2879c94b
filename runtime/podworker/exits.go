// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// noteExits notes which containers have exited: whoever removes one does not have it run again.
func (s *syncer) noteExits(d desired, observed *plan.PodStatus) {
	s.mem.mu.Lock()
	defer s.mem.mu.Unlock()
	exits := s.mem.rec.Exits.Seen(d.pod, observed)
	if plan.AllContainersRestarting(s.mem.rec.PodStatus) {
		exits = nil // the shim itself removes them, to start over
	}
	if !maps.Equal(exits, s.mem.rec.Exits) {
		s.mem.rec.Exits = exits
		s.mem.touch()
	}
}

// exits are how containers ended whose instance the runtime may have lost. It is not changed.
func (m *memory) exits() plan.Exits {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.Exits
}
