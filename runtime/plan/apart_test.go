// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// told is a plan in a test's words.
func told(pod *corev1.Pod, a plan.Actions) string {
	var words []string
	for _, k := range a.ContainersToKill {
		words = append(words, "kill "+k.Name)
	}
	for _, r := range a.ContainersToReset {
		words = append(words, "reset "+r.Name)
	}
	for _, c := range a.Started(pod) {
		words = append(words, "start "+c.Name)
	}
	if n := len(a.MemoryToUpdate) + len(a.CPUToUpdate); n > 0 || a.UpdatePodResources {
		words = append(words, fmt.Sprintf("resize %d of pod %t", n, a.UpdatePodResources))
	}
	return strings.Join(words, ", ")
}

// What takes its time for some containers does not hold up the others: a plan is carried out in
// parts that have nothing to do with each other.
func TestPlansAreTakenApart(t *testing.T) {
	kill := func(name string, waitsFor ...string) plan.Kill {
		return plan.Kill{ID: name, Name: name, WaitsFor: waitsFor}
	}
	resize := func(name string) plan.Kill {
		return plan.Kill{ID: name, Name: name, Trigger: v1alpha1.TriggerResizeRequired}
	}
	// i1, s1, s2 are the init containers 0 to 2, and a, b, c the main ones.
	tests := map[string]struct {
		in   plan.Actions
		want []string
	}{
		"no kill": {plan.Actions{ContainersToStart: []int{0}}, []string{"start a"}},
		"kills that do not wait": {
			plan.Actions{ContainersToKill: []plan.Kill{kill("a"), kill("b")}, ContainersToStart: []int{0, 1, 2}},
			[]string{"kill a, start a", "kill b, start b", "start c"},
		},
		"one that is not started again": {plan.Actions{ContainersToKill: []plan.Kill{kill("a")}, ContainersToStart: []int{1}}, []string{"kill a", "start b"}},
		"a sidecar that waits": {
			plan.Actions{
				ContainersToKill:      []plan.Kill{kill("s1", "a", "s2"), kill("s2", "a"), kill("a"), kill("b")},
				InitContainersToStart: []int{1, 2}, ContainersToStart: []int{0, 1},
			},
			[]string{"kill s1, kill s2, kill a, start s1, start s2, start a", "kill b, start b", ""},
		},
		"sidecars that have failed": {
			plan.Actions{ContainersToKill: []plan.Kill{kill("s1"), kill("s2")}, InitContainersToStart: []int{1, 2}},
			[]string{"kill s1, start s1", "kill s2, start s2", ""},
		},
		"the next init container starts after the kill of the one before": {
			plan.Actions{ContainersToKill: []plan.Kill{kill("s1")}, InitContainersToStart: []int{1, 2}},
			[]string{"kill s1, start s1, start s2", ""},
		},
		"two instances of one name": {
			plan.Actions{ContainersToKill: []plan.Kill{kill("a"), kill("b"), {ID: "a2", Name: "a"}}, ContainersToStart: []int{0}},
			[]string{"kill b", "kill a, kill a, start a", ""},
		},
		"resizes are of the whole pod": {
			plan.Actions{
				ContainersToKill: []plan.Kill{resize("a"), kill("b"), resize("c")}, ContainersToStart: []int{0, 1, 2},
				CPUToUpdate: []plan.ResourceUpdate{{ID: "s1"}}, UpdatePodResources: true,
			},
			[]string{"kill b, start b", "kill a, kill c, start a, start c, resize 1 of pod true", ""},
		},
		"resizes in place wait for no kill": {
			plan.Actions{ContainersToKill: []plan.Kill{kill("b")}, ContainersToStart: []int{1}, CPUToUpdate: []plan.ResourceUpdate{{ID: "a"}}},
			[]string{"kill b, start b", "resize 1 of pod false"},
		},
		"the whole pod": {plan.Actions{KillPod: true, ContainersToKill: []plan.Kill{kill("a"), kill("b")}}, []string{"kill a, kill b"}},
		"all are reset": {plan.Actions{ContainersToReset: []plan.Reset{{Name: "a"}, {Name: "b"}}}, []string{"reset a, reset b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyAlways, "i1", "s1", "s2", "a", "b", "c")
			before := told(pod, tt.in)
			parts, rest := tt.in.Apart(pod)
			var got []string
			for _, part := range parts {
				got = append(got, told(pod, part))
			}
			if diff := cmp.Diff(tt.want, append(got, told(pod, rest))); diff != "" {
				t.Errorf("parts, and the rest (-want +got):\n%s", diff)
			}
			if after := told(pod, tt.in); after != before {
				t.Errorf("the plan was %s and is %s", before, after)
			}
		})
	}
}

// What is under way is left alone, and neither held to have ended nor done a second time.
func TestContainersUnderWayAreLeftAlone(t *testing.T) {
	for name, state := range map[string]plan.ContainerState{"still runs": plan.ContainerRunning, "is dead": plan.ContainerExited} {
		t.Run(name, func(t *testing.T) {
			in := runningInput(corev1.RestartPolicyNever, "s1", "a", "b")
			for _, name := range []string{"s1", "a"} {
				status(in, name).State = state
				in.Probes[name+"-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure, Startup: plan.ProbeSuccess}
			}
			status(in, "b").State, status(in, "b").ExitCode = plan.ContainerExited, 1
			in.UnderWay = map[string]bool{"s1": true, "a": true}
			if got := plan.Compute(in); got.KillPod || told(in.Pod, got) != "" {
				t.Errorf("plan %q, whole pod %t; want nothing", told(in.Pod, got), got.KillPod)
			}
			in.Pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
			want := "start b"
			if state == plan.ContainerExited {
				want = "" // no main container runs: b waits for the sidecar before it, as in the kubelet
			}
			if got := told(in.Pod, plan.Compute(in)); got != want {
				t.Errorf("plan %q, want %q", got, want)
			}
		})
	}
}
