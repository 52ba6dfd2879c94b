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

func TestTerminationOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		running []string
		want    map[string][]string
	}{
		"mains first, then sidecars from the last": {
			running: []string{"b", "s3", "a", "s1", "s2"},
			want: map[string][]string{
				"s1": {"a", "b", "s2"},
				"s2": {"a", "b", "s3"},
				"s3": {"a", "b"},
			},
		},
		"only the next sidecar of the spec is waited for": {
			running: []string{"s1", "s3"},
			want:    map[string][]string{},
		},
		"plain init containers neither wait nor are waited for": {
			running: []string{"i1", "s1"},
			want:    map[string][]string{},
		},
		"no sidecar runs": {
			running: []string{"a", "b"},
			want:    map[string][]string{},
		},
		"what is not in the spec has no place": {
			running: []string{"other", "a", "s3"},
			want:    map[string][]string{"s3": {"a"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(corev1.RestartPolicyAlways, "s1", "i1", "s2", "s3", "a", "b")
			if diff := cmp.Diff(tt.want, plan.TerminationOrder(pod, tt.running)); diff != "" {
				t.Errorf("Order differs (-want +got):\n%s", diff)
			}
		})
	}
}

// The kills of a pod are listed as its template lists the containers; those that it
// does not name come last.
func TestPodKillsOrder(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "b"}, {Name: "a"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}},
	}}
	observed := &plan.PodStatus{}
	for _, name := range []string{"y", "e", "a", "x", "b", "i"} {
		observed.Containers = append(observed.Containers, plan.ContainerStatus{ID: name, Name: name, State: plan.ContainerRunning})
	}
	var names []string
	for _, k := range plan.PodKills(plan.KillRequest{Pod: pod, Observed: observed}, plan.AllDifferences()) {
		names = append(names, k.Name)
	}
	if got := strings.Join(names, " "); got != "i b a e x y" {
		t.Errorf("kills of %s", got)
	}
}

// A sidecar that is killed on purpose works until then: it waits for the main containers, whatever
// ends them, and for the sidecar after it, as at a termination. No other kill of a sync waits.
func TestOrderOfKillsInASync(t *testing.T) {
	t.Parallel()
	fail := func(names ...string) func(*plan.Input) {
		return func(in *plan.Input) {
			for _, name := range names {
				spec(*in, name).LivenessProbe = &corev1.Probe{}
				in.Probes[name+"-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure, Startup: plan.ProbeSuccess}
			}
		}
	}
	change := func(names ...string) func(*plan.Input) {
		return func(in *plan.Input) {
			for _, name := range names {
				spec(*in, name).Image = "another"
			}
			in.Definitions = plan.Define(in.Pod)
		}
	}
	ask := func(trigger v1alpha1.KillTrigger, names ...string) func(*plan.Input) {
		return func(in *plan.Input) {
			in.Asked = map[string]plan.Asked{}
			for _, name := range names {
				in.Asked[name] = plan.Asked{Trigger: trigger, ContainerID: name + "-id"}
			}
		}
	}
	named := func(edit func(*corev1.PodSpec)) func(*plan.Input) {
		return func(in *plan.Input) {
			edit(&in.Pod.Spec)
			in.Definitions = plan.Define(in.Pod)
			in.Observed.Sandboxes[0].Hash = in.Definitions.Pod
		}
	}
	removed := named(func(s *corev1.PodSpec) { s.InitContainers = s.InitContainers[1:] })
	bothRemoved := named(func(s *corev1.PodSpec) { s.InitContainers = nil })
	renamed := named(func(s *corev1.PodSpec) { s.Containers[0].Name = "new" })
	becomesMain := named(func(s *corev1.PodSpec) {
		s.Containers = append(s.Containers, corev1.Container{Name: "s1"})
		s.InitContainers = s.InitContainers[1:]
	})
	becomesSidecar := named(func(s *corev1.PodSpec) {
		b := corev1.Container{Name: "b", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
		s.InitContainers = append(s.InitContainers, b)
		s.Containers = s.Containers[:1]
	})
	begun := func(names ...string) func(*plan.Input) {
		return func(in *plan.Input) {
			in.UnderWay = map[string]bool{}
			for _, name := range names {
				in.UnderWay[name] = true
			}
		}
	}
	exited := func(in *plan.Input) {
		for i := range in.Observed.Containers {
			if in.Observed.Containers[i].Name == "a" {
				in.Observed.Containers[i].State = plan.ContainerExited
			}
		}
	}
	all := map[string][]string{"a": nil, "b": nil, "s1": {"a", "b", "s2"}, "s2": {"a", "b"}}
	tests := map[string]struct {
		edits []func(*plan.Input)
		want  map[string][]string
	}{
		"kubectl rollout restart":            {[]func(*plan.Input){func(in *plan.Input) { in.Definitions.RestartedAt = "now" }}, all},
		"other images":                       {[]func(*plan.Input){change("s1", "s2", "a", "b")}, all},
		"a KillRequest restarts":             {[]func(*plan.Input){ask(v1alpha1.TriggerRestartRequested, "s1", "s2", "a", "b")}, all},
		"a KillRequest stops":                {[]func(*plan.Input){ask(v1alpha1.TriggerStopRequested, "s1", "s2", "a", "b")}, all},
		"a change beside a request":          {[]func(*plan.Input){change("a"), ask(v1alpha1.TriggerRestartRequested, "s2")}, map[string][]string{"a": nil, "s2": {"a"}}},
		"a change of sidecars":               {[]func(*plan.Input){change("s1", "s2")}, map[string][]string{"s1": {"s2"}, "s2": nil}},
		"a changed sidecar, a failed app":    {[]func(*plan.Input){fail("a"), change("s1")}, map[string][]string{"a": nil, "s1": {"a"}}},
		"both fail":                          {[]func(*plan.Input){fail("s1", "s2", "a")}, map[string][]string{"a": nil, "s1": nil, "s2": nil}},
		"a failed sidecar, a changed app":    {[]func(*plan.Input){fail("s1"), change("a")}, map[string][]string{"a": nil, "s1": nil}},
		"a failed sidecar before one in use": {[]func(*plan.Input){fail("s2"), change("s1")}, map[string][]string{"s1": {"s2"}, "s2": nil}},
		"a changed sidecar, a kill of the app that began earlier": {
			[]func(*plan.Input){change("s1"), begun("a")}, map[string][]string{"s1": {"a"}}},
		"a failed sidecar, a kill of the app that began earlier": {
			[]func(*plan.Input){fail("s1"), begun("a")}, map[string][]string{"s1": nil}},
		"a removed sidecar, a kill of the app that began earlier": {
			[]func(*plan.Input){removed, begun("a")}, map[string][]string{"s1": {"a"}}},
		"a changed sidecar, a kill of the next one that began earlier": {
			[]func(*plan.Input){change("s1", "b"), begun("s2")}, map[string][]string{"b": nil, "s1": {"b", "s2"}}},
		"a changed sidecar, an app that starts again after its kill": {
			[]func(*plan.Input){change("s1"), begun("a"), exited}, map[string][]string{"s1": nil}},
		"a removed sidecar, a changed app": {[]func(*plan.Input){change("a"), removed}, map[string][]string{"a": nil, "s1": {"a"}}},
		"two removed sidecars":             {[]func(*plan.Input){bothRemoved}, map[string][]string{"s1": {"s2"}, "s2": nil}},
		"a changed sidecar, a renamed app": {
			[]func(*plan.Input){change("s2"), renamed}, map[string][]string{"a": nil, "s2": {"a"}}},
		"a sidecar becomes a main container, the app and the next sidecar change": {
			[]func(*plan.Input){change("a", "s2"), becomesMain}, map[string][]string{"a": nil, "s1": {"a", "s2"}, "s2": {"a"}}},
		"a main container becomes a sidecar, the app and the sidecars change": {
			[]func(*plan.Input){change("a", "s1", "s2"), becomesSidecar},
			map[string][]string{"a": nil, "b": nil, "s1": {"a", "b", "s2"}, "s2": {"a", "b"}}},
	}
	for name, tt := range tests {
		for _, atOnce := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, at once %t", name, atOnce), func(t *testing.T) {
				t.Parallel()
				in := runningInput(corev1.RestartPolicyAlways, "s1", "s2", "a", "b")
				in.Differences.KillsAtOnce = atOnce
				for _, edit := range tt.edits {
					edit(&in)
				}
				got := map[string][]string{}
				for _, k := range plan.Compute(in).ContainersToKill {
					got[k.Name] = k.WaitsFor
				}
				want := map[string][]string{}
				for name, waitsFor := range tt.want {
					if want[name] = waitsFor; !atOnce {
						want[name] = nil
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("kills and what they wait for (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// The containers of a sandbox that is replaced end in the order of what runs in it: a sidecar that the
// change removes serves until then, and so does one that becomes a main container.
func TestOrderOfAChangedPod(t *testing.T) {
	tests := map[string]struct {
		template []string
		want     map[string][]string
	}{
		"the same containers":                      {[]string{"s1", "s2", "a"}, map[string][]string{"a": nil, "s1": {"a", "s2"}, "s2": {"a"}}},
		"the first sidecar is removed":             {[]string{"s2", "a"}, map[string][]string{"a": nil, "s1": {"a", "s2"}, "s2": {"a"}}},
		"the second sidecar is removed":            {[]string{"s1", "a"}, map[string][]string{"a": nil, "s1": {"a", "s2"}, "s2": {"a"}}},
		"the main container has another name":      {[]string{"s1", "s2", "b"}, map[string][]string{"a": nil, "s1": {"a", "s2"}, "s2": {"a"}}},
		"all have other names":                     {[]string{"s3", "b"}, map[string][]string{"a": nil, "s1": {"a", "s2"}, "s2": {"a"}}},
		"a sidecar was put before the others":      {[]string{"s0", "s1", "s2", "a"}, map[string][]string{"a": nil, "s1": {"a", "s2"}, "s2": {"a"}}},
		"the sidecars have exchanged their places": {[]string{"s2", "s1", "a"}, map[string][]string{"a": nil, "s1": {"a", "s2"}, "s2": {"a"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := runningInput(corev1.RestartPolicyAlways, "s1", "s2", "a")
			got := map[string][]string{}
			r := plan.KillRequest{Pod: newPod(corev1.RestartPolicyAlways, tt.template...), Observed: in.Observed}
			for _, k := range plan.PodKills(r, plan.AllDifferences()) {
				got[k.Name] = k.WaitsFor
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("kills and what they wait for (-want +got):\n%s", diff)
			}
		})
	}
}

// Kills that a crash cut off keep the order that they began with, also where a change has renamed
// the main container.
func TestOrderOfResumedKills(t *testing.T) {
	in := runningInput(corev1.RestartPolicyAlways, "s1", "a")
	for trigger, want := range map[v1alpha1.KillTrigger][]string{v1alpha1.TriggerRestartRequested: {"a"}, v1alpha1.TriggerLivenessProbe: nil} {
		for _, main := range []string{"a", "b"} {
			var open []plan.KillProgress
			for _, s := range in.Observed.Containers {
				open = append(open, plan.KillProgress{Record: v1alpha1.KillRecord{Container: s.Name, Trigger: trigger, Grace: v1alpha1.KillGrace{Seconds: 9}}})
			}
			kills := plan.ResumedKills(newPod(corev1.RestartPolicyAlways, "s1", main), open, in.Observed.Containers, plan.AllDifferences())
			if diff := cmp.Diff(want, kills[0].WaitsFor); diff != "" {
				t.Errorf("%s, the template has %s: the sidecar waits for (-want +got):\n%s", trigger, main, diff)
			}
		}
	}
}
