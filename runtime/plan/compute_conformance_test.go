// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

// planVector is a line of plan-upstream and plan-fuzz.
type planVector = recordings.Plan[vectors.Actions]

var planExclusions = []exclusion[*planVector]{
	{
		name:    "pod-level-resources",
		reason:  "resources of the whole pod are refused in a template",
		applies: func(v *planVector) bool { return v.Pod.Spec.Resources != nil || v.ActuatedPodResources != nil },
	},
	{
		name:   "no-resize-of-init-containers",
		reason: "recorded with a feature gate off that is on by default",
		applies: func(v *planVector) bool {
			on, set := v.Gates["InPlacePodVerticalScalingInitContainers"]
			return set && !on
		},
	},
}

func TestConformancePlanUpstream(t *testing.T) {
	t.Parallel()
	replayPlans(t, "plan-upstream")
}

func TestConformancePlanFuzz(t *testing.T) {
	t.Parallel()
	replayPlans(t, "plan-fuzz")
}

func replayPlans(t *testing.T, file string) {
	t.Helper()
	counts := excluded{}
	recordings.Each(t, file, func(t *testing.T, line []byte, v *planVector) {
		if excludes(t, planExclusions, v, counts) {
			return
		}
		id, in, err := vectors.DecodeRecorded(line)
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
