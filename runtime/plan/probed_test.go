// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

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
	next := in.Pod.DeepCopy()
	for i := range next.Spec.Containers {
		c := &next.Spec.Containers[i]
		c.Image, c.LivenessProbe, c.ReadinessProbe = "next", probe("/new"), probe("/new")
	}
	for name, tt := range map[string]struct {
		previous            *corev1.Pod
		kept                []string
		liveness, readiness string // of container a
	}{
		"nothing waits":                      {in.Pod, nil, "/new", "/new"},
		"a waits":                            {in.Pod, []string{"a"}, "/old", "/old"},
		"b waits":                            {in.Pod, []string{"b"}, "/new", "/new"},
		"what it was made from is not known": {nil, []string{"a"}, "", "/new"},
		"it was made from another":           {next, []string{"a"}, "", "/new"},
	} {
		c := plan.ProbedPod(next, tt.previous, in.Observed, tt.kept).Spec.Containers[0]
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
	if plan.ProbedPod(next, in.Pod, in.Observed, []string{"a"}).Spec.HostNetwork {
		t.Error("a container on the pod network is probed on the node's")
	}
	in.Observed.Sandboxes[0].NetworkNamespace = plan.NetworkNode
	if !plan.ProbedPod(in.Pod, next, in.Observed, []string{"a"}).Spec.HostNetwork {
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
