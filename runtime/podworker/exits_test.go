// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A container that has ended for good, and that was removed over CRI, is not run
// again: not by the shim that saw it end, and by none after it.
func TestRemovedAfterItsExit(t *testing.T) {
	for name, after := range map[string]func(*testing.T, *fakeNode) *fakeNode{
		"by the same shim": func(_ *testing.T, n *fakeNode) *fakeNode {
			n.pool.Wake("a")
			return n
		},
		"by one that has the checkpoint": func(t *testing.T, n *fakeNode) *fakeNode {
			n = restarted(t, n)
			n.apiDown = false
			n.start(t).Update(workload("a", twoThatRunOnce))
			return n
		},
		"by one that has the object's status only": func(t *testing.T, n *fakeNode) *fakeNode {
			m := newFakeNode(t)
			m.pods = restarted(t, n).pods
			nw := workload("a", twoThatRunOnce)
			nw.Status = n.published("a")
			m.api["a"] = nw.Status.DeepCopy()
			m.start(t).Update(nw)
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				p := n.start(t)
				p.Update(workload("a", twoThatRunOnce))
				n.settle(time.Second)
				n.alter(func(c *plan.ContainerStatus) bool {
					if c.Name == "c" {
						c.State, c.ExitCode, c.Reason, c.FinishedAt = plan.ContainerExited, 0, "Completed", time.Now()
					}
					return true
				})
				p.Wake("a")
				n.settle(time.Minute)
				n.alter(func(c *plan.ContainerStatus) bool { return c.Name != "c" })
				before := len(n.log())
				m := after(t, n)
				if m != n {
					before = 0
				}
				m.settle(10 * time.Minute)
				if calls := m.log()[before:]; slices.Contains(calls, "start c image:1") {
					t.Errorf("it runs again: %q", calls)
				}
				st := m.published("a")
				if !slices.ContainsFunc(st.ContainerStatuses, func(c corev1.ContainerStatus) bool {
					return c.Name == "c" && c.State.Terminated != nil && c.State.Terminated.Reason == "Completed"
				}) {
					t.Errorf("statuses %+v, want c Completed", st.ContainerStatuses)
				}
			})
		})
	}
}

func twoThatRunOnce(nw *template.Workload) {
	spec := &nw.Template.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Containers = append(spec.Containers, corev1.Container{Name: "d", Image: "image:1"})
}

// alter changes the containers of the only pod, and drops those of which change says false.
func (n *fakeNode) alter(change func(*plan.ContainerStatus) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var kept []plan.ContainerStatus
	for _, c := range n.pods["a"].containers {
		if change(&c) {
			kept = append(kept, c)
		}
	}
	n.pods["a"].containers = kept
}

// restartsAll has the exit code 42 of the first main container, c, restart all of them, and adds a second one, d.
func restartsAll(spec *corev1.PodSpec) {
	spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
	spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}
	spec.Containers = append(spec.Containers, corev1.Container{Name: "d", Image: "image:1"})
}

// exit ends what runs of a container.
func (n *historyNode) exit(name string, code int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.containers {
		if s := &n.containers[i]; s.Name == name && s.State == plan.ContainerRunning {
			n.exits(s, code)
		}
	}
}

// starts are how often containers were started, by the first letter of their names.
func (n *historyNode) starts() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	started := map[string]int{}
	for _, call := range n.calls {
		if _, id, ok := strings.Cut(call, " StartContainer "); ok {
			started[id[:1]]++
		}
	}
	return started
}

// What has completed runs again when an exit asks for a restart of all containers.
func TestRestartOfAllRunsWhatHasCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory()
		spec := &h.nw.Template.Spec
		spec.RestartPolicy = corev1.RestartPolicyNever
		spec.InitContainers = []corev1.Container{{Name: "i", Image: "image:1"}}
		h.node.spec["i"] = containerScript{runs: time.Second}
		restartsAll(spec)
		h.begin(t)
		defer h.end()
		for _, exit := range []struct {
			name string
			code int32
		}{{"d", 0}, {"c", 42}} {
			time.Sleep(time.Minute)
			h.node.exit(exit.name, exit.code)
			h.pool.Wake("a")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		started := h.node.starts()
		if diff := cmp.Diff(map[string]int{"i": 2, "c": 2, "d": 2}, started); diff != "" {
			t.Errorf("starts (-want +got):\n%s\n%s", diff, strings.Join(h.node.calls, "\n"))
		}
	})
}

// A look during the reset of all containers, when none is left, makes no init container one that has
// completed: all of them run again.
func TestRestartOfAllForgetsExitsAtOnce(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "c"}}}}
	m := newMemory(Identity{UID: "a"}, "boot")
	m.noteExits(pod, &plan.PodStatus{Containers: []plan.ContainerStatus{
		{ID: "1", Name: "i", SandboxID: "s", State: plan.ContainerExited}, {ID: "2", Name: "c", SandboxID: "s", State: plan.ContainerExited, ExitCode: 42},
	}})
	if len(m.exits()) != 2 {
		t.Fatalf("exits %+v", m.exits())
	}
	for _, restarting := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		m.report(desired{pod: pod}, report{pod: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.AllContainersRestarting, Status: restarting}},
		}}, nil, plan.Moment{})
	}
	m.noteExits(pod, &plan.PodStatus{})
	if exits := m.exits(); len(exits) != 0 {
		t.Errorf("exits %+v after the reset", exits)
	}
}

// A container that asks at once again that all of its pod start over is restarted no more often than one that exits
// at once; the others run on until then.
func TestRestartOfAllBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory()
		spec := &h.nw.Template.Spec
		spec.RestartPolicy = corev1.RestartPolicyNever
		restartsAll(spec)
		h.begin(t)
		defer h.end()
		for range 120 {
			time.Sleep(time.Second)
			h.node.exit("c", 42)
			h.pool.Wake("a")
		}
		synctest.Wait()
		started := h.node.starts()
		// At once, and after 10, 20 and 40 s.
		if diff := cmp.Diff(map[string]int{"c": 5, "d": 5}, started); diff != "" {
			t.Errorf("starts within 2 minutes (-want +got):\n%s\n%s", diff, strings.Join(h.node.calls, "\n"))
		}
	})
}
