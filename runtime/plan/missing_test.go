// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func missingFrom(container string) plan.Missing {
	return plan.Missing{Container: container, Reason: plan.Reason{Reason: "ObjectsMissing", Message: `configmap "x" not found`}}
}

func TestDeliberateChangesWaitForObjects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		containers  []string
		change      func(*plan.Input)
		missing     []plan.Missing
		noImages    bool
		want        waiting
		wantMissing []plan.Missing
	}{
		"a definition": {
			containers: []string{"a"}, change: another("a"), missing: []plan.Missing{missingFrom("a")},
			want: waiting{kept: []string{"a"}}, wantMissing: []plan.Missing{missingFrom("a")},
		},
		"a definition, its image is missing too, and is pulled meanwhile": {
			containers: []string{"a"}, change: another("a"), missing: []plan.Missing{missingFrom("a")}, noImages: true,
			want: waiting{waits: []string{"a "}, kept: []string{"a"}}, wantMissing: []plan.Missing{missingFrom("a")},
		},
		"a restart that is requested": {
			containers: []string{"a"}, change: func(in *plan.Input) { in.Definitions.RestartedAt = "now" }, missing: []plan.Missing{missingFrom("a")},
			want: waiting{kept: []string{"a"}}, wantMissing: []plan.Missing{missingFrom("a")},
		},
		"a resize that needs a restart": {
			containers: []string{"a"}, change: resizedWithRestart("a"), missing: []plan.Missing{missingFrom("a")},
			want: waiting{kept: []string{"a"}}, wantMissing: []plan.Missing{missingFrom("a")},
		},
		"a container waits for its own variables only": {
			containers: []string{"a", "b", "s"}, change: another("a", "b", "s"), missing: []plan.Missing{missingFrom("a")},
			want:        waiting{kills: []string{"s DefinitionChanged", "b DefinitionChanged"}, starts: []string{"s", "b"}, kept: []string{"a"}},
			wantMissing: []plan.Missing{missingFrom("a")},
		},
		"all wait for a volume": {
			containers: []string{"a", "b"}, change: another("a", "b"), missing: []plan.Missing{missingFrom("")},
			want: waiting{kept: []string{"a", "b"}}, wantMissing: []plan.Missing{missingFrom("")},
		},
		"without a change nothing waits": {
			containers: []string{"a"}, change: func(*plan.Input) {}, missing: []plan.Missing{missingFrom(""), missingFrom("a")},
		},
		"a probe does not wait": {
			containers: []string{"a"}, missing: []plan.Missing{missingFrom("")}, change: func(in *plan.Input) {
				another("a")(in)
				in.Probes["a-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure}
			},
			want:        waiting{kills: []string{"a LivenessProbe"}, starts: []string{"a"}, kept: []string{"a"}},
			wantMissing: []plan.Missing{missingFrom("")},
		},
		"what has exited is started, to say what is missing": {
			containers: []string{"a"}, missing: []plan.Missing{missingFrom("")}, change: func(in *plan.Input) {
				another("a")(in)
				status(*in, "a").State = plan.ContainerExited
			},
			want: waiting{starts: []string{"a"}},
		},
		"a sandbox waits for what any of its containers needs": {
			containers: []string{"i", "a", "b"}, change: anotherPod, missing: []plan.Missing{missingFrom("i"), missingFrom("b")},
			want: waiting{kept: []string{"a", "b"}}, wantMissing: []plan.Missing{missingFrom("i"), missingFrom("b")},
		},
		"while a sandbox waits nothing is started in it": {
			containers: []string{"a", "b"}, missing: []plan.Missing{missingFrom("")}, change: func(in *plan.Input) {
				anotherPod(in)
				status(*in, "a").State = plan.ContainerExited
			},
			want: waiting{kept: []string{"b"}, held: []string{"a ObjectsMissing"}}, wantMissing: []plan.Missing{missingFrom("")},
		},
		"a sandbox in which nothing runs does not wait": {
			containers: []string{"a"}, missing: []plan.Missing{missingFrom("")}, change: func(in *plan.Input) {
				anotherPod(in)
				status(*in, "a").State = plan.ContainerExited
			},
			want: waiting{podKill: true, starts: []string{"a"}},
		},
		"a sandbox that broke does not wait": {
			containers: []string{"a"}, missing: []plan.Missing{missingFrom("")}, change: func(in *plan.Input) {
				anotherPod(in)
				in.Observed.Sandboxes[0].State = plan.SandboxNotReady
			},
			want: waiting{podKill: true, starts: []string{"a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(corev1.RestartPolicyAlways, tt.containers...)
			in.Differences = plan.AllDifferences()
			in.Missing, in.Prepared = tt.missing, map[plan.ImageKey]plan.Preparation{}
			for _, c := range tt.containers {
				if !tt.noImages {
					in.Prepared[plan.ImageKeyOf(spec(in, c))] = plan.Preparation{Ref: "sha256:" + c}
				}
			}
			tt.change(&in)
			a := plan.Compute(in)
			if diff := cmp.Diff(tt.want, waitingOf(in, a), cmp.AllowUnexported(waiting{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantMissing, a.MissingWaits); diff != "" {
				t.Errorf("waits for (-want +got):\n%s", diff)
			}
			if a.Waiting() != (len(tt.wantMissing) > 0) {
				t.Errorf("waiting: %v", a.Waiting())
			}
			// The kubelet kills whatever is missing.
			in.Differences.ObjectsBeforeKill = false
			without := plan.Compute(in)
			in.Missing = nil
			if diff := cmp.Diff(plan.Compute(in), without, cmpopts.IgnoreUnexported(plan.Kill{})); diff != "" || len(without.MissingWaits) > 0 {
				t.Errorf("without the difference objects matter (-without +with):\n%s", diff)
			}
		})
	}
}
