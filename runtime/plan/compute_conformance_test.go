// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

// planVector is a line of plan-upstream and plan-fuzz.
type planVector struct {
	ID                         string                                 `json:"id"`
	Pod                        corev1.Pod                             `json:"pod"`
	PodStatus                  podStatusVector                        `json:"podStatus"`
	Probes                     probesVector                           `json:"probes"`
	RestartAllContainers       bool                                   `json:"restartAllContainers"`
	Gates                      map[string]bool                        `json:"gates"`
	ActuatedContainerResources map[string]corev1.ResourceRequirements `json:"actuatedContainerResources"`
	ActuatedPodResources       *corev1.ResourceRequirements           `json:"actuatedPodResources"`
	Actions                    vectors.Actions                        `json:"actions"`
}

type probesVector struct {
	Liveness map[string]string `json:"liveness"`
	Startup  map[string]string `json:"startup"`
}

type podStatusVector struct {
	ID                 string            `json:"id"`
	Name               string            `json:"name"`
	Namespace          string            `json:"namespace"`
	IPs                []string          `json:"ips"`
	Sandboxes          []sandboxVector   `json:"sandboxes"`
	Containers         []containerVector `json:"containers"`
	ActiveContainerIDs []string          `json:"activeContainerIDs,omitempty"`
}

type sandboxVector struct {
	ID               string          `json:"id"`
	State            string          `json:"state"`
	Attempt          uint32          `json:"attempt"`
	CreatedAt        int64           `json:"createdAt"`
	NetworkNamespace string          `json:"networkNamespace"`
	Network          json.RawMessage `json:"network"`
}

type containerVector struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	State        string          `json:"state"`
	ExitCode     int32           `json:"exitCode"`
	Reason       string          `json:"reason"`
	Message      string          `json:"message"`
	Hash         uint64          `json:"hash"`
	HashMatches  *bool           `json:"hashMatches"`
	RestartCount int             `json:"restartCount"`
	CreatedAt    metav1.Time     `json:"createdAt"`
	StartedAt    metav1.Time     `json:"startedAt"`
	FinishedAt   metav1.Time     `json:"finishedAt"`
	Image        string          `json:"image"`
	ImageID      string          `json:"imageID"`
	ImageRef     string          `json:"imageRef"`
	Resources    json.RawMessage `json:"resources"`
}

var planExclusions = []exclusion[planVector]{
	{
		name:    "pod-level-resources",
		reason:  "resources of the whole pod are refused in a template",
		applies: func(v planVector) bool { return v.Pod.Spec.Resources != nil || v.ActuatedPodResources != nil },
	},
	{
		name:   "no-resize-of-init-containers",
		reason: "recorded with a feature gate off that is on by default",
		applies: func(v planVector) bool {
			on, set := v.Gates["InPlacePodVerticalScalingInitContainers"]
			return set && !on
		},
	},
}

func TestConformancePlanUpstream(t *testing.T) {
	t.Parallel()
	replayPlans(t, "plan-upstream.jsonl.gz")
}

func TestConformancePlanFuzz(t *testing.T) {
	t.Parallel()
	replayPlans(t, "plan-fuzz.jsonl.gz")
}

func replayPlans(t *testing.T, file string) {
	t.Helper()
	counts := excluded{}
	eachVector(t, file, func(t *testing.T, line []byte, v planVector) {
		if excludes(t, planExclusions, v, counts) {
			return
		}
		id, in, err := vectors.Decode(line)
		if err != nil {
			t.Fatalf("%s: %v", v.ID, err)
		}
		if id != v.ID {
			t.Errorf("Decoded id %q, want %q", id, v.ID)
		}
		if diff := cmp.Diff(v.Actions, vectors.Encode(plan.Compute(in))); diff != "" {
			t.Errorf("%s: actions differ (-kubelet +ours):\n%s", v.ID, diff)
		}
	})
	logExclusions(t, planExclusions, counts)
}
