// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// failedKill is the record of a requested kill that had 30 s and failed at some time.
func failedKill(at time.Time) v1alpha1.KillRecord {
	return v1alpha1.KillRecord{
		Container: "a", ContainerID: "a-id", Trigger: v1alpha1.TriggerStopRequested, Phase: v1alpha1.KillPhaseDone,
		Outcome: v1alpha1.KillOutcomeFailed, Grace: v1alpha1.KillGrace{Seconds: 30}, FinishTime: new(metav1.NewMicroTime(at)),
	}
}

// An instance that outlives the requested kill of it, which nothing asks for any more, is not
// started again when it ends by itself; one that ends soon after the kill may have got its signal.
func TestOwedAfterAKillThatFailed(t *testing.T) {
	t.Parallel()
	failed := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	request := requestRestart("a")
	request.Action = v1alpha1.RequestStop
	noted := func(phase v1alpha1.RequestPhase) []v1alpha1.NodeRequestStatus {
		return []v1alpha1.NodeRequestStatus{{ID: "1", Containers: []v1alpha1.RequestContainerState{{Name: "a", ContainerID: "a-id", Phase: phase}}}}
	}
	type facts struct {
		in *plan.SettleInput
		s  *plan.ContainerStatus
	}
	record := func(edit func(*v1alpha1.KillRecord)) func(facts) {
		return func(f facts) { edit(&f.in.Kills[0]) }
	}
	for name, tc := range map[string]struct {
		after time.Duration // from the failed kill to now
		edit  func(facts)
		due   bool
	}{
		"it runs on":           {41 * time.Second, func(facts) {}, false},
		"its time is not over": {40 * time.Second, func(facts) {}, true},
		"it has ended within the time": {time.Hour, func(f facts) {
			f.s.State, f.s.FinishedAt = plan.ContainerExited, failed.Add(35*time.Second)
		}, true},
		"it has ended by itself": {time.Hour, func(f facts) {
			f.s.State, f.s.FinishedAt = plan.ContainerExited, failed.Add(50*time.Second)
		}, false},
		"its end has no time":  {time.Hour, func(f facts) { f.s.State, f.s.FinishedAt = plan.ContainerExited, time.Time{} }, true},
		"its state is unknown": {time.Hour, func(f facts) { f.s.State = plan.ContainerUnknown }, true},
		"it is not there":      {time.Hour, func(f facts) { f.in.Observed.Containers = nil }, true},
		"the request is there": {time.Hour, func(f facts) {
			f.in.Requests, f.in.Noted = []v1alpha1.NodeRequest{request}, noted(v1alpha1.RequestInProgress)
		}, true},
		"the request is over": {time.Hour, func(f facts) {
			f.in.Requests, f.in.Noted = []v1alpha1.NodeRequest{request}, noted(v1alpha1.RequestFailed)
		}, false},
		"the request is gone, and still noted": {time.Hour, func(f facts) { f.in.Noted = noted(v1alpha1.RequestInProgress) }, false},
		"the template asks for the restart": {time.Hour, func(f facts) {
			f.in.Definitions.RestartedAt = "2026-01-01T12:00:00Z"
		}, true},
		"the template asks for another definition": {time.Hour, func(f facts) {
			f.in.Definitions.Containers["a"] = plan.HashContainer(&corev1.Container{Name: "a", Image: "other"})
		}, true},
		"the template asks for another pod": {time.Hour, func(f facts) {
			f.in.Pod.Spec.HostIPC = true
			f.in.Definitions = plan.Define(f.in.Pod)
		}, true},
		"the template asks for another pod, and the sandbox has been stopped": {time.Hour, func(f facts) {
			f.in.Pod.Spec.HostIPC = true
			f.in.Definitions = plan.Define(f.in.Pod)
			f.in.Observed.Sandboxes[0].State = plan.SandboxNotReady
		}, true},
		"the template asks for another network": {time.Hour, func(f facts) { f.in.Pod.Spec.HostNetwork = true }, true},
		"the template asks for other resources": {time.Hour, func(f facts) {
			f.in.Pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
			f.in.Actuated = map[string]plan.Resources{"a-id": {CPULimit: 100}}
		}, true},
		"the template's other resources need no restart": {time.Hour, func(f facts) {
			f.in.Actuated = map[string]plan.Resources{"a-id": {CPULimit: 100}}
		}, false},
		"a kill is under way": {time.Hour, func(f facts) {
			f.in.Kills = slices.Insert(f.in.Kills, 0, v1alpha1.KillRecord{Container: "a", ContainerID: "a-id", Phase: v1alpha1.KillPhaseStopping})
		}, true},
		"a later requested kill did not fail": {time.Hour, func(f facts) {
			k := failedKill(failed)
			k.Outcome = v1alpha1.KillOutcomeGraceful
			f.in.Kills = slices.Insert(f.in.Kills, 0, k)
		}, true},
		"a later requested kill failed later": {time.Hour, func(f facts) {
			f.in.Kills = slices.Insert(f.in.Kills, 0, failedKill(failed.Add(time.Hour)))
		}, true},
		"a later kill was for a probe": {time.Hour, func(f facts) {
			k := failedKill(failed)
			k.Trigger, k.Outcome = v1alpha1.TriggerLivenessProbe, v1alpha1.KillOutcomeGraceful
			f.in.Kills = slices.Insert(f.in.Kills, 0, k)
		}, false},
		"the kill did not fail":       {time.Hour, record(func(k *v1alpha1.KillRecord) { k.Outcome = "" }), true},
		"the kill was of another one": {time.Hour, record(func(k *v1alpha1.KillRecord) { k.ContainerID = "a-1" }), true},
		"it had all time":             {time.Hour, record(func(k *v1alpha1.KillRecord) { k.Grace.Seconds = math.MaxInt64 }), true},
	} {
		running := runningInput(corev1.RestartPolicyNever, "a")
		in := plan.SettleInput{
			Pod: running.Pod, Observed: running.Observed, Definitions: plan.Define(running.Pod),
			Kills: []v1alpha1.KillRecord{failedKill(failed)}, Now: failed.Add(tc.after),
		}
		tc.edit(facts{&in, status(running, "a")})
		if left := (plan.Owed{"a": "a-id"}).Left(in); (len(left) == 1) != tc.due {
			t.Errorf("%s: due %v, want %v", name, left, tc.due)
		}
	}
}
