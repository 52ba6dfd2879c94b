// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// messageRejected precedes why the node does not admit a pod. (kubelet kubelet.go:rejectPod)
const messageRejected = "Pod was rejected: "

// candidate is a template that the node has not admitted yet.
type candidate struct {
	pod  *corev1.Pod
	hash string
}

// rejected is whether the node does not take pod, of which nothing ever ran.
func (d desired) rejected() bool { return d.denied != nil && d.next == nil && !d.ran }

// asks is the pod that the node is asked to admit, nil if it needs not be asked: nothing of it
// ever ran, or its template replaces one of which something ran.
func (d desired) asks() *corev1.Pod {
	switch {
	case d.ends():
		return nil
	case d.next != nil:
		return d.next.pod
	case d.ran, d.held != "", d.admitted == d.pod:
		return nil
	}
	return d.pod
}

// offered takes the latest template: at once if the node has admitted none before, or this
// one, else when the node admits it.
func (d desired) offered(c candidate) desired {
	before := d.hash
	if d.next != nil {
		before = d.next.hash
	}
	if c.hash != before {
		d.denied = nil
	}
	admitted := d.pod != nil && (d.ran || d.admitted == d.pod)
	if admitted && c.hash != d.hash && c.pod.DeletionTimestamp == nil && !d.ends() {
		d.next = &c
		return d
	}
	if admitted {
		d.admitted = c.pod
	}
	return d.taking(c)
}

// taking makes a template the one that is wanted.
func (d desired) taking(c candidate) desired {
	if d.previous == nil {
		d.previous = d.pod
	}
	d.pod, d.hash, d.next, d.held = c.pod, c.hash, nil, ""
	return d
}

// decided takes the node's word about a pod that asked.
func (d desired) decided(pod *corev1.Pod, refusal *plan.Refusal) desired {
	if pod == nil || d.asks() != pod {
		return d // it asks for something else by now, which is decided next
	}
	d.denied = refusal
	if refusal != nil {
		return d
	}
	d.admitted = pod
	if d.next != nil {
		d = d.taking(*d.next)
		d.version++
	}
	return d
}

// asks is what the node is asked to admit, nil for nothing.
func (m *memory) asks() *corev1.Pod { return m.peek().asks() }

// asksForPorts is the pod that waits for the node to admit it, as far as that may be for host ports; nil if none
// does.
func (m *memory) asksForPorts() *corev1.Pod {
	d := m.peek()
	if d.denied != nil && d.denied.Reason != plan.ReasonHostPorts {
		return nil
	}
	return d.asks()
}

// decided takes the node's word about a pod that asked, and says whether it is news.
func (m *memory) decided(pod *corev1.Pod, refusal *plan.Refusal) bool {
	before := m.peek()
	m.demand(func(d desired) desired { return d.decided(pod, refusal) })
	after := m.peek()
	if before.denied == nil || after.denied == nil {
		return before.denied != after.denied || before.admitted != after.admitted
	}
	return *before.denied != *after.denied
}

// noteRan notes whether the runtime has something of the workload: then the node has admitted
// it.
func (m *memory) noteRan(observed *plan.PodStatus) bool {
	if len(observed.Containers) == 0 && len(observed.Sandboxes) == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.want.ran {
		m.want.ran = true
		m.touch()
	}
	if m.want.next == nil {
		m.want.denied = nil
	}
	return true
}

// claims are the pods of the workload that run, or may be started: the one that the node has
// admitted, and those before of which something may run. present: the runtime has something of
// it.
func (m *memory) claims(present bool) []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.want
	admitted := d.ran || present || d.admitted == d.pod
	if d.pod == nil || !admitted || m.rec.State != Syncing && m.rec.State != Terminating {
		return nil
	}
	pods := []*corev1.Pod{d.pod}
	for _, pod := range []*corev1.Pod{d.previous, m.keeps} {
		if pod != nil && pod != d.pod {
			pods = append(pods, pod)
		}
	}
	return pods
}

// admission asks whether the node takes what never ran; nil if it does. What ran before is
// admitted. (kubelet kubelet.go:HandlePodAdditions)
func (s *syncer) admission(d desired, observed *plan.PodStatus) desired {
	if !s.mem.noteRan(observed) && d.asks() != nil {
		s.askNode()
	}
	now := s.mem.peek()
	d.ran, d.denied, d.admitted = now.ran, now.denied, now.admitted
	return d
}

// reject reports that the node does not take what never ran. (kubelet kubelet.go:rejectPod)
func (s *syncer) reject(d desired, usable Usable) {
	s.report(d, report{pod: corev1.PodStatus{
		Phase: corev1.PodPending, Reason: d.denied.Reason, Message: messageRejected + d.denied.Message,
	}}, usable)
}
