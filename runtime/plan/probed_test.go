// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestProbedPod(t *testing.T) {
	t.Parallel()
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path}}}
	}
	in := runningInput(corev1.RestartPolicyAlways, "a", "b")
	for _, c := range []string{"a", "b"} {
		spec(in, c).LivenessProbe, spec(in, c).ReadinessProbe = probe("/old"), probe("/old")
	}
	made := plan.Made{}.Note(in.Pod, in.Definitions, in.Observed, nil)
	next := in.Pod.DeepCopy()
	for i := range next.Spec.Containers {
		c := &next.Spec.Containers[i]
		c.Image, c.LivenessProbe, c.ReadinessProbe = "next", probe("/new"), probe("/new")
	}
	for name, tt := range map[string]struct {
		made                plan.Made
		kept                []string
		liveness, readiness string // of container a
	}{
		"nothing waits":                      {made, nil, "/new", "/new"},
		"a waits":                            {made, []string{"a"}, "/old", "/old"},
		"b waits":                            {made, []string{"b"}, "/new", "/new"},
		"what it was made from is not known": {nil, []string{"a"}, "", "/new"},
	} {
		c := plan.ProbedPod(next, tt.made, in.Observed, tt.kept).Spec.Containers[0]
		liveness := ""
		if c.LivenessProbe != nil {
			liveness = c.LivenessProbe.HTTPGet.Path
		}
		if liveness != tt.liveness || c.ReadinessProbe.HTTPGet.Path != tt.readiness {
			t.Errorf("%s: liveness %q, readiness %q", name, liveness, c.ReadinessProbe.HTTPGet.Path)
		}
	}
	if next.Spec.Containers[0].Image != "next" || next.Spec.Containers[0].LivenessProbe.HTTPGet.Path != "/new" {
		t.Error("The pod was changed")
	}
}

// What waits for another network is probed in the one that it is in.
func TestProbedPodIsInItsNetwork(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "a")
	next := in.Pod.DeepCopy()
	next.Spec.HostNetwork = true
	if plan.ProbedPod(next, nil, in.Observed, []string{"a"}).Spec.HostNetwork {
		t.Error("a container on the pod network is probed on the node's")
	}
	in.Observed.Sandboxes[0].NetworkNamespace = plan.NetworkNode
	if !plan.ProbedPod(in.Pod, nil, in.Observed, []string{"a"}).Spec.HostNetwork {
		t.Error("a container on the node's network is probed on the pod's")
	}
}

// The kill that an old probe asks for has that probe's grace period.
func TestKillByProbeOfTheInstance(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "a", "b")
	in.Differences = plan.AllDifferences()
	spec(in, "a").LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: new(int64(7))}
	status(in, "a").Recorded.TerminationGracePeriodSeconds = new(int64(30))
	before := in.Pod.DeepCopy()
	spec(in, "a").LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: new(int64(3))}
	another("a")(&in)
	in.Probed = before
	in.Probes["a-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure}
	kills := plan.Compute(in).ContainersToKill
	if len(kills) != 1 || kills[0].Grace != (plan.Grace{Seconds: 7, Source: v1alpha1.GraceSourceProbe}) {
		t.Errorf("kills %+v", kills)
	}
}

// A sidecar that waits has started, and fails, by the probes that it was made with: those
// of the template are for an image that is not there.
func TestWaitingSidecarIsJudgedByItsOwnProbes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		old, next func(*corev1.Container)
		probes    plan.ProbeResults
		want      waiting
	}{
		"a startup probe is new": {
			next: func(c *corev1.Container) { c.StartupProbe = &corev1.Probe{} },
			want: waiting{waits: []string{"s "}, kept: []string{"s"}},
		},
		"its startup probe is gone": {
			old: func(c *corev1.Container) { c.StartupProbe = &corev1.Probe{} }, probes: plan.ProbeResults{Startup: plan.ProbeFailure},
			want: waiting{kills: []string{"s StartupProbe"}, waits: []string{"s "}, held: []string{"s "}},
		},
		"its liveness probe is gone": {
			old: func(c *corev1.Container) { c.LivenessProbe = &corev1.Probe{} }, probes: plan.ProbeResults{Liveness: plan.ProbeFailure},
			want: waiting{kills: []string{"s LivenessProbe"}, waits: []string{"s "}, kept: []string{"s"}, held: []string{"s "}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(corev1.RestartPolicyAlways, "s", "a")
			in.Differences = plan.AllDifferences()
			in.Probes["s-id"] = tt.probes
			in.Probed = in.Pod.DeepCopy()
			if tt.old != nil {
				tt.old(&in.Probed.Spec.InitContainers[0])
			}
			if tt.next != nil {
				tt.next(spec(in, "s"))
			}
			another("s")(&in)
			if diff := cmp.Diff(tt.want, waitingOf(in, plan.Compute(in)), cmp.AllowUnexported(waiting{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// What an instance was made from is known as long as it is there, however many templates
// come after.
func TestMadeIsKept(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "a", "b", "c")
	made := plan.Made{}.Note(in.Pod, in.Definitions, in.Observed, nil)
	next := in.Pod.DeepCopy()
	next.Spec.Containers = next.Spec.Containers[:2] // without c
	next.Spec.Containers[0].Image = "next"
	for range 2 {
		next = next.DeepCopy()
		made = made.Note(next, plan.Define(next), in.Observed, nil)
	}
	if made["a-id"] != spec(in, "a") || made["b-id"] != &next.Spec.Containers[1] || made["c-id"] != spec(in, "c") {
		t.Errorf("made: %v", made)
	}
	kept := made.Note(in.Pod, in.Definitions, in.Observed, []string{"b"})
	if kept["b-id"] != &next.Spec.Containers[1] {
		t.Error("what waits takes the probes of the template")
	}
	in.Observed.Containers = nil
	if left := made.Note(next, plan.Define(next), in.Observed, nil); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
