// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// filesPod has two containers that mount one image, and one that mounts none.
func filesPod(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{Reference: "files:1", PullPolicy: corev1.PullAlways},
	}}}
	app := &pod.Spec.Containers[0]
	app.VolumeMounts = []corev1.VolumeMount{{Name: "files", MountPath: "/x"}, {Name: "files", MountPath: "/y"}}
	second, third := app.DeepCopy(), app.DeepCopy()
	second.Name, third.Name, third.VolumeMounts = "second", "third", nil
	pod.Spec.Containers = append(pod.Spec.Containers, *second, *third)
}

func startThree(pod *corev1.Pod, f *fakeRuntime) plan.SyncRequest {
	request := startApp(pod, f)
	request.Actions.ContainersToStart = []int{0, 1, 2}
	return request
}

// The image of a volume is pulled once in a sync, before the first container that mounts
// it, and each of them gets it.
func TestImageVolumeIsPulledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Images = map[string]bool{"img:1": true, "files:1": true}
		pod := testPod(30, filesPod)
		if outcome := newFakeExecutor(f).SyncPod(t.Context(), startThree(pod, f)); outcome.Err != nil {
			t.Fatal(outcome.Err)
		}
		if pulls := f.ops("PullImage"); len(pulls) != 1 {
			t.Errorf("%d pulls, want 1", len(pulls))
		}
		var trace []string
		for _, e := range f.Trace() {
			if op := e.Text("op"); op == "PullImage" || op == "CreateContainer" {
				trace = append(trace, op)
			}
		}
		if want := []string{"PullImage", "CreateContainer", "CreateContainer", "CreateContainer"}; !slices.Equal(trace, want) {
			t.Errorf("calls %q, want %q", trace, want)
		}
		for container, want := range map[string]string{"app": "files:1", "second": "files:1", "third": ""} {
			if got := f.mounted[container]["files"]; got != want {
				t.Errorf("%s mounts image %q, want %q", container, got, want)
			}
		}
	})
}

// A container that cannot have what it mounts waits with the reason of the pull, and the
// event about it is the kubelet's. What does not mount it starts.
func TestImageVolumeThatCannotBePulled(t *testing.T) {
	for name, tt := range map[string]struct {
		policy corev1.PullPolicy
		want   plan.Reason
	}{
		"no registry": {corev1.PullIfNotPresent, plan.Reason{Reason: "ErrImagePull", Message: "rpc error: code = Unknown desc = runtime exploded"}},
		"Never":       {corev1.PullNever, plan.Reason{Reason: "ErrImageNeverPull", Message: `Container image "files:1" is not present with pull policy of Never`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Images = map[string]bool{"img:1": true}
				f.Fail("PullImage", "files:1", "Unknown")
				pod := testPod(30, filesPod)
				pod.Spec.Volumes[0].Image.PullPolicy = tt.policy
				outcome := newFakeExecutor(f).SyncPod(t.Context(), startThree(pod, f))
				for container, want := range map[string]plan.Reason{"app": tt.want, "second": tt.want, "third": {}} {
					if got, tried := outcome.Tried[container]; got != want || !tried {
						t.Errorf("%s: %v, want %v", container, got, want)
					}
				}
				if created := f.ops("CreateContainer"); len(created) != 1 {
					t.Errorf("created %v, want only what does not mount it", created)
				}
				failed := 0
				for _, e := range f.ops("Event") {
					if e.Text("reason") == "Failed" && e.Text("message") == "Error: "+tt.want.Reason {
						failed++
					}
				}
				if failed != 2 {
					t.Errorf("events %v", f.ops("Event"))
				}
			})
		})
	}
}
