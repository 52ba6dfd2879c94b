// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A container with crashes behind it that is changed, or restarted on request,
// starts at once, and no back-off is left of what was before.
func TestBackoffForgivesDeliberate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		edit     func(pod *corev1.Pod, newest *plan.ContainerStatus)
		killed   v1alpha1.KillTrigger
		wantWait bool
	}{
		"a crash":                 {wantWait: true},
		"failed its probe":        {killed: v1alpha1.TriggerLivenessProbe, wantWait: true},
		"killed for a definition": {killed: v1alpha1.TriggerDefinitionChanged},
		"killed on request":       {killed: v1alpha1.TriggerRestartRequested},
		"killed for a resize":     {killed: v1alpha1.TriggerResizeRequired},
		"the definition is fixed while it waits": {edit: func(pod *corev1.Pod, _ *plan.ContainerStatus) {
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FIXED", Value: "yes"}}
		}},
		"the pod is defined again while it waits": {edit: func(pod *corev1.Pod, _ *plan.ContainerStatus) { pod.Spec.Hostname = "another" }},
		"a restart is requested while it waits": {edit: func(pod *corev1.Pod, _ *plan.ContainerStatus) {
			pod.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "now"}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(corev1.RestartPolicyAlways, "c")
			crashed := plan.ContainerStatus{
				ID: "c1", Name: "c", State: plan.ContainerExited, ExitCode: 1, FinishedAt: now.Add(-time.Second),
				Hash: plan.HashContainer(&pod.Spec.Containers[0]),
			}
			crashed.SandboxID = "old"
			r := plan.SyncRequest{Pod: pod, Observed: &plan.PodStatus{Sandboxes: []plan.SandboxStatus{
				{ID: "new", Hash: "v0:other"}, {ID: "old", Hash: plan.HashPod(pod)},
			}}, Backoff: map[string]*plan.Backoff{}}
			if tt.killed != "" {
				running := crashed
				running.ID, running.State = "c2", plan.ContainerRunning
				r.Observed.Containers = append(r.Observed.Containers, running)
				r.Actions.ContainersToKill = []plan.Kill{{ID: "c2", Name: "c", Trigger: tt.killed}}
			}
			r.Observed.Containers = append(r.Observed.Containers, crashed)
			if tt.edit != nil {
				tt.edit(pod, &r.Observed.Containers[0])
			}
			entry := &plan.Backoff{Current: 160 * time.Second, LastUpdate: now.Add(-time.Minute)}
			r.Backoff[plan.BackoffKey(pod, &pod.Spec.Containers[0])] = entry

			_, next, wait := plan.CheckBackoff(&r, &pod.Spec.Containers[0], plan.AllDifferences(), plan.Moment{Wall: now})
			if forgiven := next == nil || next.Forgiven != ""; (wait != nil) != tt.wantWait || forgiven == tt.wantWait {
				t.Errorf("wait %+v, entry %+v; want to wait: %v", wait, next, tt.wantWait)
			}
			if _, _, wait := plan.CheckBackoff(&r, &pod.Spec.Containers[0], plan.Differences{}, plan.Moment{Wall: now}); wait == nil {
				t.Error("as the kubelet it has to wait")
			}
		})
	}
}

// Where nothing was done on purpose, back-off is the kubelet's.
func TestPropertyBackoffWithoutDeliberateKills(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		pod := newPod(corev1.RestartPolicyAlways, "c")
		r := plan.SyncRequest{Pod: pod, Observed: &plan.PodStatus{}, Backoff: map[string]*plan.Backoff{}}
		for i := range rapid.IntRange(0, 3).Draw(t, "instances") {
			state := rapid.SampledFrom([]plan.ContainerState{plan.ContainerRunning, plan.ContainerExited, plan.ContainerUnknown}).Draw(t, "state")
			r.Observed.Containers = append(r.Observed.Containers, plan.ContainerStatus{
				ID: string(rune('a' + i)), Name: "c", State: state, Hash: plan.HashContainer(&pod.Spec.Containers[0]),
				FinishedAt: now.Add(-time.Duration(rapid.IntRange(0, 700).Draw(t, "ago")) * time.Second),
			})
			if rapid.Bool().Draw(t, "killed") {
				trigger := rapid.SampledFrom([]v1alpha1.KillTrigger{
					v1alpha1.TriggerLivenessProbe, v1alpha1.TriggerStartupProbe, v1alpha1.TriggerUnknownState,
				}).Draw(t, "trigger")
				r.Actions.ContainersToKill = append(r.Actions.ContainersToKill, plan.Kill{ID: string(rune('a' + i)), Name: "c", Trigger: trigger})
			}
		}
		if rapid.Bool().Draw(t, "entry") {
			r.Backoff[plan.BackoffKey(pod, &pod.Spec.Containers[0])] = &plan.Backoff{
				Current:    time.Duration(rapid.IntRange(1, 300).Draw(t, "current")) * time.Second,
				LastUpdate: now.Add(-time.Duration(rapid.IntRange(0, 700).Draw(t, "updated")) * time.Second),
			}
		}
		_, wantNext, wantWait := plan.CheckBackoff(&r, &pod.Spec.Containers[0], plan.Differences{}, plan.Moment{Wall: now})
		_, next, wait := plan.CheckBackoff(&r, &pod.Spec.Containers[0], plan.AllDifferences(), plan.Moment{Wall: now})
		if diff := cmp.Diff(wantNext, next) + cmp.Diff(wantWait, wait); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Back-off outlives the agent, where the kubelet forgets it.
func TestBackoffAfterRestart(t *testing.T) {
	kept := map[string]*plan.Backoff{"app": {}}
	if got := plan.BackoffAfterRestart(kept, plan.AllDifferences()); len(got) != 1 {
		t.Errorf("production has %v after a restart", got)
	}
	if got := plan.BackoffAfterRestart(kept, plan.Differences{}); got == nil || len(got) != 0 {
		t.Errorf("the kubelet has %v after a restart", got)
	}
}
