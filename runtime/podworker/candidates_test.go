// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// candidateNames are the workloads that may be ended for the node's sake.
func candidateNames(p *Pool) (names []string) {
	for _, pod := range p.Candidates() {
		names = append(names, pod.Name)
	}
	return names
}

// What was started may be ended for the node's sake: nothing that waits to be admitted, and
// nothing that ends. It is gone once its volumes are.
func TestCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.releaseErr = errors.New("the disk hangs")
		p := n.restoreWith(t, func(c *Config) {
			c.Admit = func(pod *corev1.Pod) *plan.Refusal {
				if pod.Name == "c" {
					return &plan.Refusal{Reason: "Evicted", Message: "The node had condition: [DiskPressure]. "}
				}
				return nil
			}
		})
		n.begin(t)
		for _, name := range []string{"b", "a", "c"} {
			p.Update(workload(name))
		}
		n.settle(time.Minute)
		if diff := cmp.Diff([]string{"a", "b"}, candidateNames(p)); diff != "" {
			t.Error(diff)
		}
		if dead, released := p.Ended("a"); dead || released {
			t.Errorf("runs, and is dead %t, released %t", dead, released)
		}
		end := pressure()
		end.EventAnnotations = map[string]string{"starved_resource": "memory"}
		p.Terminate("a", end)
		if diff := cmp.Diff([]string{"b"}, candidateNames(p)); diff != "" {
			t.Error(diff)
		}
		n.settle(time.Minute)
		if dead, released := p.Ended("a"); !dead || released {
			t.Errorf("dead %t, released %t, want a dead one with volumes", dead, released)
		}
		n.mu.Lock()
		n.releaseErr = nil
		n.mu.Unlock()
		n.settle(time.Minute)
		if dead, released := p.Ended("a"); !dead || !released {
			t.Errorf("dead %t, released %t", dead, released)
		}
		if dead, released := p.Ended("none"); !dead || !released {
			t.Error("a workload that there is not is still there")
		}
	})
}

// The event about an eviction has the kubelet's annotations, also after a restart of the shim
// that had no API server to send it to.
func TestEventAnnotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		n.setAPI(true)
		end := pressure()
		end.EventAnnotations = map[string]string{"starved_resource": "memory"}
		p.Terminate("a", end)
		n.settle(time.Minute)
		m := restarted(t, n)
		m.setAPI(false)
		p = m.start(t)
		p.Update(workload("a"))
		m.settle(time.Minute)
		if !m.did("event Evicted: " + end.Message + " map[starved_resource:memory]") {
			t.Errorf("events %q", m.log())
		}
	})
}

// AnnotatedEvent implements AnnotatedEvents.
func (n *fakeNode) AnnotatedEvent(_ *corev1.Pod, annotations map[string]string, _, reason, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("event %s: %s %v", reason, message, annotations)
}
