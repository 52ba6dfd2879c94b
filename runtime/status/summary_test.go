// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestSummarize(t *testing.T) {
	one := pod(corev1.Container{Name: "a"})
	two := pod(corev1.Container{Name: "a"}, corev1.Container{Name: "b"})
	initPod := func() *corev1.Pod {
		return withInit(pod(corev1.Container{Name: "a"}),
			corev1.Container{Name: "i"}, corev1.Container{Name: "s", RestartPolicy: &always})
	}
	yes := true
	run := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(reason string, code, signal int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Signal: signal}}
	}
	readyCondition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	initialized := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	initializing := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionFalse}
	statuses := func(s ...corev1.ContainerStatus) []corev1.ContainerStatus { return s }
	tests := map[string]struct {
		pod  *corev1.Pod
		st   corev1.PodStatus
		want Summary
	}{
		"nothing known": {pod: one, st: corev1.PodStatus{Phase: corev1.PodPending}, want: Summary{"Pending", "0/1", 0}},
		"running": {pod: one, st: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: run, Ready: true, RestartCount: 2}),
		}, want: Summary{"Running", "1/1", 2}},
		"creating": {pod: one, st: corev1.PodStatus{
			Phase:             corev1.PodPending,
			ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: waiting("ContainerCreating", "")}),
		}, want: Summary{"ContainerCreating", "0/1", 0}},
		"the first container has the last word": {pod: two, st: corev1.PodStatus{
			Phase: corev1.PodRunning,
			ContainerStatuses: statuses(
				corev1.ContainerStatus{Name: "a", State: waiting("CrashLoopBackOff", ""), RestartCount: 4},
				corev1.ContainerStatus{Name: "b", State: waiting("ImagePullBackOff", "")}),
		}, want: Summary{"CrashLoopBackOff", "0/2", 4}},
		"completed": {pod: one, st: corev1.PodStatus{
			Phase: corev1.PodSucceeded, ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: ended("Completed", 0, 0)}),
		}, want: Summary{"Completed", "0/1", 0}},
		"exit code": {pod: one, st: corev1.PodStatus{
			Phase: corev1.PodFailed, ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: ended("", 7, 0)}),
		}, want: Summary{"ExitCode:7", "0/1", 0}},
		"signal": {pod: one, st: corev1.PodStatus{
			Phase: corev1.PodFailed, ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: ended("", 137, 9)}),
		}, want: Summary{"Signal:9", "0/1", 0}},
		"one completed, one runs, pod not ready": {pod: two, st: corev1.PodStatus{
			Phase: corev1.PodRunning,
			ContainerStatuses: statuses(
				corev1.ContainerStatus{Name: "a", State: ended("Completed", 0, 0)},
				corev1.ContainerStatus{Name: "b", State: run, Ready: true}),
		}, want: Summary{"NotReady", "1/2", 0}},
		"one completed, one runs, pod ready": {pod: two, st: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{readyCondition},
			ContainerStatuses: statuses(
				corev1.ContainerStatus{Name: "a", State: ended("Completed", 0, 0)},
				corev1.ContainerStatus{Name: "b", State: run, Ready: true}),
		}, want: Summary{"Running", "1/2", 0}},
		"one completed, one failed": {pod: two, st: corev1.PodStatus{
			Phase: corev1.PodFailed,
			ContainerStatuses: statuses(
				corev1.ContainerStatus{Name: "a", State: ended("Completed", 0, 0)},
				corev1.ContainerStatus{Name: "b", State: ended("Error", 1, 0)}),
		}, want: Summary{"Error", "0/2", 0}},
		"evicted": {pod: one, st: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, want: Summary{"Evicted", "0/1", 0}},
		"terminating": {pod: deleted(pod(corev1.Container{Name: "a"})), st: corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: run, Ready: true}),
		}, want: Summary{"Terminating", "1/1", 0}},
		"deleted after it had ended": {pod: deleted(pod(corev1.Container{Name: "a"})), st: corev1.PodStatus{
			Phase: corev1.PodFailed, ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: ended("Error", 1, 0)}),
		}, want: Summary{"Error", "0/1", 0}},
		"node lost": {
			pod: deleted(pod(corev1.Container{Name: "a"})), st: corev1.PodStatus{Phase: corev1.PodRunning, Reason: "NodeLost"},
			want: Summary{"Unknown", "0/1", 0},
		},
		"scheduling gated": {pod: one, st: corev1.PodStatus{
			Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: "SchedulingGated"}},
		}, want: Summary{"SchedulingGated", "0/1", 0}},
		"first init container runs": {pod: initPod(), st: corev1.PodStatus{
			Phase: corev1.PodPending, Conditions: []corev1.PodCondition{initializing},
			InitContainerStatuses: statuses(
				corev1.ContainerStatus{Name: "i", State: run, RestartCount: 3},
				corev1.ContainerStatus{Name: "s", State: waiting("PodInitializing", "")}),
			ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: waiting("PodInitializing", "")}),
		}, want: Summary{"Init:0/2", "0/2", 3}},
		"init container backs off": {pod: initPod(), st: corev1.PodStatus{
			InitContainerStatuses: statuses(corev1.ContainerStatus{Name: "i", State: waiting("CrashLoopBackOff", "")}),
		}, want: Summary{"Init:CrashLoopBackOff", "0/2", 0}},
		"init container failed": {pod: initPod(), st: corev1.PodStatus{
			InitContainerStatuses: statuses(corev1.ContainerStatus{Name: "i", State: ended("Error", 1, 0)}),
		}, want: Summary{"Init:Error", "0/2", 0}},
		"init container failed without a reason": {pod: initPod(), st: corev1.PodStatus{
			InitContainerStatuses: statuses(corev1.ContainerStatus{Name: "i", State: ended("", 3, 0)}),
		}, want: Summary{"Init:ExitCode:3", "0/2", 0}},
		"init container killed": {pod: initPod(), st: corev1.PodStatus{
			InitContainerStatuses: statuses(corev1.ContainerStatus{Name: "i", State: ended("", 137, 9)}),
		}, want: Summary{"Init:Signal:9", "0/2", 0}},
		"sidecar has not started": {pod: initPod(), st: corev1.PodStatus{
			InitContainerStatuses: statuses(
				corev1.ContainerStatus{Name: "i", State: ended("Completed", 0, 0), RestartCount: 3},
				corev1.ContainerStatus{Name: "s", State: run}),
		}, want: Summary{"Init:1/2", "0/2", 3}},
		"restarts of init containers that are through do not count": {pod: initPod(), st: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{initialized},
			InitContainerStatuses: statuses(
				corev1.ContainerStatus{Name: "i", State: ended("Completed", 0, 0), RestartCount: 3},
				corev1.ContainerStatus{Name: "s", State: run, Started: &yes, Ready: true, RestartCount: 1}),
			ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: run, Ready: true, RestartCount: 5}),
		}, want: Summary{"Running", "2/2", 6}},
		"sidecar restarts in an initialized pod": {pod: initPod(), st: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{initialized},
			InitContainerStatuses: statuses(
				corev1.ContainerStatus{Name: "i", State: ended("Completed", 0, 0)},
				corev1.ContainerStatus{Name: "s", State: waiting("CrashLoopBackOff", ""), RestartCount: 1}),
			ContainerStatuses: statuses(corev1.ContainerStatus{Name: "a", State: run, Ready: true}),
		}, want: Summary{"Init:CrashLoopBackOff", "1/2", 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Summarize(tc.pod, &tc.st)); diff != "" {
				t.Errorf("Summary (-want +got):\n%s", diff)
			}
		})
	}
}
