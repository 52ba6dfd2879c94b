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

// files is the image of the volume that container a mounts, twice; b mounts none.
var files = plan.ImageKey{Image: "files:1", Policy: corev1.PullAlways}

func mountsFiles(in *plan.Input) {
	in.Pod.Spec.Volumes = []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{Reference: files.Image, PullPolicy: files.Policy},
	}}}
	spec(*in, "a").VolumeMounts = []corev1.VolumeMount{{Name: "files", MountPath: "/x"}, {Name: "files", MountPath: "/y"}}
}

func filesInput() plan.Input {
	in := runningInput(corev1.RestartPolicyAlways, "a", "b")
	in.Differences = plan.AllDifferences()
	mountsFiles(&in)
	in.Prepared = map[plan.ImageKey]plan.Preparation{}
	for _, c := range []string{"a", "b"} {
		in.Prepared[plan.ImageKeyOf(spec(in, c))] = plan.Preparation{Ref: "sha256:" + c}
	}
	return in
}

// What a container mounts is waited for as what it starts from.
func TestDeliberateChangesWaitForImageVolumes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change   func(*plan.Input)
		prepared plan.Preparation
		want     waiting
	}{
		"only what mounts it": {
			change: another("a", "b"), prepared: plan.Preparation{Reason: errImagePull},
			want: waiting{kills: []string{"b DefinitionChanged"}, starts: []string{"b"}, waits: []string{"a ErrImagePull"}, kept: []string{"a"}},
		},
		"a new sandbox": {
			change: anotherPod, want: waiting{waits: []string{"a "}, kept: []string{"a", "b"}},
		},
		"it is there": {
			change: another("a"), prepared: plan.Preparation{Ref: "sha256:files"},
			want: waiting{kills: []string{"a DefinitionChanged"}, starts: []string{"a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := filesInput()
			in.Prepared[files] = tt.prepared
			tt.change(&in)
			a := plan.Compute(in)
			if diff := cmp.Diff(tt.want, waitingOf(in, a), cmp.AllowUnexported(waiting{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			for _, w := range a.Waits {
				if w.Image != files {
					t.Errorf("waits for %v", w.Image)
				}
			}
			if !plan.ImagesInUse(in)[files] {
				t.Error("its preparation does not count")
			}
		})
	}
}

// What was pulled before the kill is what is mounted; otherwise its policy decides.
func TestStartMountsWhatWasPulled(t *testing.T) {
	t.Parallel()
	in := filesInput()
	in.Prepared[files] = plan.Preparation{Ref: "sha256:files", Pulled: true}
	another("a")(&in)
	a := plan.Compute(in)
	want := plan.ImageNeed{Container: "a", Volume: "files", Image: "files:1", Use: plan.ImagePulled, Ref: "sha256:files"}
	if got := a.VolumeImageOf("a", "files"); got != want || a.ImageOf("a") != (plan.ImageNeed{}) {
		t.Errorf("images %v, want %v alone", a.Images, want)
	}
	in = filesInput()
	in.Images = plan.Images{"files:1": "sha256:files"}
	status(in, "a").State = plan.ContainerExited
	a = plan.Compute(in)
	if got := a.VolumeImageOf("a", "files"); got.Use != plan.ImagePull {
		t.Errorf("after a crash, under Always: %v", got)
	}
}

// Another image needs another sandbox, as another volume does; another policy does not.
func TestImageVolumeIsPartOfTheSandbox(t *testing.T) {
	t.Parallel()
	in := filesInput()
	hash := plan.HashPod(in.Pod)
	in.Pod.Spec.Volumes[0].Image.PullPolicy = corev1.PullNever
	if plan.HashPod(in.Pod) != hash || in.Pod.Spec.Volumes[0].Image.PullPolicy != corev1.PullNever {
		t.Error("another policy is another sandbox")
	}
	in.Pod.Spec.Volumes[0].Image.Reference = "files:2"
	if plan.HashPod(in.Pod) == hash {
		t.Error("another image is the same sandbox")
	}
}
