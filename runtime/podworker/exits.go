// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// noteExits notes which containers have exited: one that is removed over CRI is not run again.
func (m *memory) noteExits(pod *corev1.Pod, observed *plan.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if plan.AllContainersRestarting(m.rec.PodStatus) {
		return // report has dropped what there was
	}
	if exits := m.rec.Exits.Seen(pod, observed); !maps.Equal(exits, m.rec.Exits) {
		m.rec.Exits = exits
		m.touch()
	}
}

// exits are how containers ended whose instance the runtime may have lost. It is not changed.
func (m *memory) exits() plan.Exits {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.Exits
}
