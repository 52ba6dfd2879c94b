// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Active returns the pods of which something may run, or may still be started, ordered by UID.
// (kubelet kubelet_pods.go:GetActivePods)
func (p *Pool) Active() []*corev1.Pod {
	var active []*corev1.Pod
	for _, w := range p.all() {
		if pod := w.mem.alive(); pod != nil {
			active = append(active, pod)
		}
	}
	slices.SortFunc(active, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return active
}

// alive is the pod of which something may run, nil if nothing does and nothing will.
func (m *memory) alive() *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rec.State != Syncing && m.rec.State != Terminating {
		return nil
	}
	return m.want.pod
}
