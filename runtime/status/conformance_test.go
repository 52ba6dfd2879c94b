// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

// vector is a line of status: what the kubelet made of a pod.
type vector = recordings.Status[any]

func inputOf(t *testing.T, v *vector) Input {
	t.Helper()
	data, err := json.Marshal(v.PodStatus)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := vectors.DecodePodStatus(data)
	if err != nil {
		t.Fatalf("%s: %v", v.ID, err)
	}
	for i := range observed.Containers {
		// All of them are the agent's own; the vectors leave the record out.
		observed.Containers[i].Hash = "recorded"
	}
	in := Input{
		Pod:      v.Pod,
		Previous: &v.Pod.Status,
		Observed: observed,
		Probes:   map[string]plan.ProbeResults{},
		Waiting:  map[string]Reason{},
		Terminal: v.PodIsTerminal,
		// The recorded prober has verdicts and no workers.
		AsKubelet:   true,
		RuntimeName: "fakeRuntime",
		Now:         time.Date(2026, time.January, 2, 0, 0, 0, 0, time.UTC),
	}
	for id, result := range v.StartupResults {
		in.Probes[id] = plan.ProbeResults{Startup: plan.ProbeResult(result)}
	}
	for name, reason := range v.ReasonCache {
		in.Waiting[name] = Reason(reason)
	}
	return in
}

// TestStatusConformance compares with what the kubelet answered.
func TestStatusConformance(t *testing.T) {
	recordings.Each(t, "status", func(t *testing.T, _ []byte, v *vector) {
		if diff := cmp.Diff(v.Output, output(t, v)); diff != "" {
			t.Errorf("%s differs from the kubelet (-want +got):\n%s", v.ID, diff)
		}
	})
}

// output answers a vector in its own format.
func output(t *testing.T, v *vector) any {
	t.Helper()
	in := inputOf(t, v)
	c := newConversion(&in, in.Previous)
	converted := c.containerStatusesOfPod(in.Previous)
	initialized := anyActiveMainContainer(&v.Pod.Spec, c.observed)
	all := append(append([]corev1.ContainerStatus{}, converted.ContainerStatuses...), converted.InitContainerStatuses...)

	st := Compute(in)
	generate := statusesOutput(t, &st, "resources", "allocatedResources", "user", "volumeMounts")
	generate["phase"], generate["reason"], generate["message"], generate["qosClass"] = st.Phase, st.Reason, st.Message, st.QOSClass
	conditions := []map[string]any{}
	for _, condition := range st.Conditions {
		conditions = append(conditions, map[string]any{
			"type": condition.Type, "status": condition.Status, "reason": condition.Reason, "message": condition.Message,
		})
	}
	generate["conditions"] = conditions
	return asJSON(t, map[string]any{
		"convert":                             statusesOutput(t, &converted, "resources", "allocatedResources", "user", "volumeMounts", "ready"),
		"generate":                            generate,
		"phase":                               phase(v.Pod, all, phaseFacts{terminal: v.PodIsTerminal, initialized: initialized}),
		"hasAnyActiveRegularContainerStarted": initialized,
	})
}

// statusesOutput returns the container statuses without what was not recorded.
func statusesOutput(t *testing.T, st *corev1.PodStatus, dropped ...string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, statuses := range map[string][]corev1.ContainerStatus{
		"containerStatuses":          st.ContainerStatuses,
		"initContainerStatuses":      st.InitContainerStatuses,
		"ephemeralContainerStatuses": st.EphemeralContainerStatuses,
	} {
		list := asJSON(t, statuses).([]any)
		for i := range list {
			for _, key := range dropped {
				delete(list[i].(map[string]any), key)
			}
		}
		out[name] = list
	}
	return out
}

func asJSON(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}
