// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"strings"
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
	Actions                    actionsVector                          `json:"actions"`
}

type probesVector struct {
	Liveness map[string]string `json:"liveness"`
	Startup  map[string]string `json:"startup"`
}

type actionsVector struct {
	vectors.Actions

	ContainersToUpdate json.RawMessage `json:"containersToUpdate"`
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

var planExclusions = []exclusion[planVector]{{
	name:   "resize-in-place",
	reason: "the kubelet changed resources in place, or killed for that; the shim does not yet",
	applies: func(v planVector) bool {
		if v.Actions.UpdatePodResources || v.Actions.UpdatePodLevelResources || v.Actions.ContainersToUpdate != nil {
			return true
		}
		for _, kill := range v.Actions.ContainersToKill {
			if strings.HasSuffix(kill.Message, " resize requires restart") {
				return true
			}
		}
		return false
	},
}}

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
		if diff := cmp.Diff(v.Actions.Actions, vectors.Encode(plan.Compute(in))); diff != "" {
			t.Errorf("%s: actions differ (-kubelet +ours):\n%s", v.ID, diff)
		}
	})
	logExclusions(t, planExclusions, counts)
}
