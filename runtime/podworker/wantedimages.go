// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// WantedImages are the images that workloads may need soon: the names of those of their
// templates, and what the runtime calls those that were prepared for a change.
func (p *Pool) WantedImages() []string {
	wanted := map[string]bool{}
	for _, w := range p.all() {
		for _, ref := range w.pulls.refs() {
			wanted[ref] = true
		}
		for _, pod := range w.mem.startable() {
			for key := range plan.ImageKeys(pod, podspec.InitAndMain(pod)) {
				wanted[key.Image] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}

// startable are the pods of which something may be started: none of what ends or has ended, and
// none that the node does not admit.
func (m *memory) startable() (pods []*corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.want
	if m.rec.State != Syncing || d.ends() {
		return nil
	}
	if !d.rejected() {
		pods = append(pods, d.pod)
	}
	if d.next != nil && d.denied == nil {
		pods = append(pods, d.next.pod)
	}
	pods = append(pods, d.previous, m.keeps)
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod == nil })
}
