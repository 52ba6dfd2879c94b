// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Candidates returns the pods of the workloads of which something was started and whose end was not
// requested, ordered by UID. They are not changed.
func (p *Pool) Candidates() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, w := range p.all() {
		if pod := w.mem.candidate(); pod != nil {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return pods
}

// Ended reports whether nothing of a workload runs and nothing is started any more, and whether
// its volumes and its cgroup are gone, too. Both are true of one that there is not.
func (p *Pool) Ended(uid types.UID) (dead, released bool) {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w == nil {
		return true, true
	}
	state := w.mem.state()
	return state == Terminated || state == Removed, state == Removed || w.mem.isReleased()
}

// candidate is the pod that may be ended for the node's sake; nil if nothing of it was started,
// or it ends.
func (m *memory) candidate() *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rec.State != Syncing || m.want.ends() || m.want.pod == nil || !m.started() {
		return nil
	}
	return m.want.pod
}

// started reports whether a container was ever seen to run. m.mu is held.
func (m *memory) started() bool {
	if m.rec.TemplateHash != "" {
		return true
	}
	st := m.rec.PodStatus
	return st != nil && !plan.Ended(st.Phase) && (anyStarted(st.InitContainerStatuses) || anyStarted(st.ContainerStatuses))
}

func anyStarted(statuses []corev1.ContainerStatus) bool {
	return slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.ContainerID != "" })
}

// setReleased notes that volumes and cgroup of what has ended are gone.
func (m *memory) setReleased() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.released = true
}

func (m *memory) isReleased() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.released
}
