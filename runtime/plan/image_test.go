// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestDecideImage(t *testing.T) {
	tests := map[string]struct {
		policy corev1.PullPolicy
		ref    string
		want   plan.ImageUse
	}{
		"there":                     {corev1.PullIfNotPresent, "sha256:1", plan.ImagePresent},
		"not there":                 {corev1.PullIfNotPresent, "", plan.ImagePull},
		"without policy, not there": {"", "", plan.ImagePull},
		"there, but always pulled":  {corev1.PullAlways, "sha256:1", plan.ImagePull},
		"never, there":              {corev1.PullNever, "sha256:1", plan.ImagePresent},
		"never, not there":          {corev1.PullNever, "", plan.ImageMissing},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := plan.DecideImage(&corev1.Container{Name: "c", Image: "i", ImagePullPolicy: tt.policy}, tt.ref)
			want := plan.ImageNeed{Container: "c", Image: "i", Use: tt.want}
			if tt.want == plan.ImagePresent {
				want.Ref = tt.ref
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// What is known of images changes nothing else of a plan.
func TestComputeImages(t *testing.T) {
	in := runningInput(corev1.RestartPolicyAlways, "runs", "asked", "unknown")
	in.Observed.Containers = in.Observed.Containers[:1]
	for i, image := range []string{"runs:1", "asked:1", "unknown:1"} {
		in.Pod.Spec.Containers[i].Image = image
	}
	before := plan.Compute(in)
	if before.Images != nil {
		t.Errorf("the runtime was not asked, and the plan has %v", before.Images)
	}
	in.Images = plan.Images{"runs:1": "", "asked:1": "sha256:2"}
	got := plan.Compute(in)
	want := []plan.ImageNeed{{Container: "asked", Image: "asked:1", Use: plan.ImagePresent, Ref: "sha256:2"}}
	if diff := cmp.Diff(want, got.Images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if got.ImageOf("unknown") != (plan.ImageNeed{}) {
		t.Errorf("an image that was not asked for: %+v", got.ImageOf("unknown"))
	}
	got.Images = nil
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("the rest of the plan (-without +with images):\n%s", diff)
	}
}
