// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestNodeWorkload(t *testing.T) {
	p := pod(corev1.Container{Name: "c"})
	st := Compute(Input{
		Pod: p, Observed: observed(running("c")), RuntimeName: "containerd", HostIPs: []string{"192.0.2.1"}, Now: t0,
	})
	yes := true
	got := NodeWorkload(NodeWorkloadInput{
		Generation: 4, TemplateHash: "abc", Pod: p, Status: st, KillCount: 7,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionTemplateAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted}},
		Kills:      []v1alpha1.KillRecord{{ID: "k", Trigger: v1alpha1.TriggerTermination}},
		Now:        t0.Add(time.Second),
	})
	condition := func(conditionType, reason string, at time.Time) metav1.Condition {
		return metav1.Condition{
			Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, ObservedGeneration: 4, LastTransitionTime: metav1.NewTime(at),
		}
	}
	want := v1alpha1.NodeWorkloadStatus{
		ObservedGeneration: 4, TemplateHash: "abc",
		Phase: corev1.PodRunning, Summary: "Running", Ready: "1/1",
		PodIPs: []string{"10.0.0.9"}, HostIPs: []string{"192.0.2.1"}, QOSClass: corev1.PodQOSBestEffort,
		StartTime: &metav1.Time{Time: t0},
		Conditions: []metav1.Condition{
			condition("PodReadyToStartContainers", "SandboxReady", t0),
			condition("Initialized", "ContainersInitialized", t0),
			condition("ContainersReady", "ContainersReady", t0),
			condition("Ready", "PodReady", t0),
			condition("TemplateAccepted", "Accepted", t0.Add(time.Second)),
		},
		InitContainerStatuses: []corev1.ContainerStatus{},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://c-0", Ready: true, Started: &yes,
			State:     corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(t0)}},
			Resources: &corev1.ResourceRequirements{},
		}},
		Kills:     []v1alpha1.KillRecord{{ID: "k", Trigger: v1alpha1.TriggerTermination, Summary: "terminated"}},
		KillCount: 7,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NodeWorkloadStatus (-want +got):\n%s", diff)
	}
}

func TestNodeWorkloadConditions(t *testing.T) {
	p := pod(corev1.Container{Name: "c"})
	early, late := metav1.NewTime(t0), metav1.NewTime(t0.Add(time.Hour))
	shim := metav1.Condition{Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonLeaseExpired, ObservedGeneration: 1, LastTransitionTime: early}
	failing := metav1.Condition{Type: v1alpha1.ConditionKillFailing, Status: metav1.ConditionTrue, Reason: "StopContainerFailed", LastTransitionTime: early}
	previous := &v1alpha1.NodeWorkloadStatus{Conditions: []metav1.Condition{
		shim, failing,
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Other", LastTransitionTime: early},
		{Type: "ContainersReady", Status: metav1.ConditionTrue, Reason: "ContainersReady", LastTransitionTime: early},
	}}
	before := PodStatus(previous)
	unready := Compute(Input{Pod: p, Previous: &before, Now: late.Time})
	tests := map[string]struct {
		conditions []metav1.Condition
		want       map[string]metav1.Condition
	}{
		"time kept while the status stays, moved when it changes": {
			want: map[string]metav1.Condition{
				"Ready":           {Status: metav1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [c]", ObservedGeneration: 2, LastTransitionTime: early},
				"ContainersReady": {Status: metav1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [c]", ObservedGeneration: 2, LastTransitionTime: late},
			},
		},
		"a sandbox that is not there has a reason": {
			want: map[string]metav1.Condition{
				"PodReadyToStartContainers": {Status: metav1.ConditionFalse, Reason: "SandboxNotReady", ObservedGeneration: 2, LastTransitionTime: late},
			},
		},
		"the manager's is carried over as it is": {
			want: map[string]metav1.Condition{v1alpha1.ConditionShimResponding: shim},
		},
		"the shim's own goes when it is not given": {
			want: map[string]metav1.Condition{v1alpha1.ConditionKillFailing: {}},
		},
		"and stays when it is, with its time": {
			conditions: []metav1.Condition{{Type: v1alpha1.ConditionKillFailing, Status: metav1.ConditionTrue, LastTransitionTime: late}},
			want: map[string]metav1.Condition{
				v1alpha1.ConditionKillFailing: {Status: metav1.ConditionTrue, Reason: "KillFailing", ObservedGeneration: 2, LastTransitionTime: early},
			},
		},
		"PodScheduled is left out": {want: map[string]metav1.Condition{"PodScheduled": {}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := NodeWorkload(NodeWorkloadInput{
				Previous: previous, Generation: 2, Pod: p, Status: unready, Conditions: tc.conditions, Now: late.Time,
			})
			for conditionType, want := range tc.want {
				var have metav1.Condition
				if i := conditionIndex(got.Conditions, conditionType); i >= 0 {
					have = got.Conditions[i]
				}
				if want.Status != "" {
					want.Type = conditionType
				}
				if diff := cmp.Diff(want, have); diff != "" {
					t.Errorf("Condition %s (-want +got):\n%s", conditionType, diff)
				}
			}
			for _, c := range got.Conditions {
				if c.Reason == "" || c.LastTransitionTime.IsZero() {
					t.Errorf("Condition %s lacks a reason or a time: %+v", c.Type, c)
				}
			}
		})
	}
}

func TestNodeWorkloadHoldsPhase(t *testing.T) {
	p := pod(corev1.Container{Name: "c"})
	failed := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "too long"}
	tests := map[string]struct {
		previous               *v1alpha1.NodeWorkloadStatus
		mayRun                 bool
		wantPhase              corev1.PodPhase
		wantReason, wantStatus string
	}{
		"containers are gone":         {previous: &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodRunning}, wantPhase: corev1.PodFailed, wantReason: "DeadlineExceeded", wantStatus: "DeadlineExceeded"},
		"containers may run":          {previous: &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodRunning}, mayRun: true, wantPhase: corev1.PodRunning, wantStatus: "Running"},
		"nothing was reported before": {mayRun: true, wantPhase: corev1.PodPending, wantStatus: "Pending"},
		"was terminal before":         {previous: &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodFailed}, mayRun: true, wantPhase: corev1.PodFailed, wantReason: "DeadlineExceeded", wantStatus: "DeadlineExceeded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := NodeWorkload(NodeWorkloadInput{Previous: tc.previous, Pod: p, Status: failed, ContainersMayRun: tc.mayRun, Now: t0})
			want := []string{string(tc.wantPhase), tc.wantReason, tc.wantStatus}
			if diff := cmp.Diff(want, []string{string(got.Phase), got.Reason, got.Summary}); diff != "" {
				t.Errorf("Phase, reason and summary (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeWorkloadCutsToTheAPI(t *testing.T) {
	long := strings.Repeat("ä", 40000)
	st := corev1.PodStatus{
		Reason: long, Message: long,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: long, Message: long}},
	}
	var kills []v1alpha1.KillRecord
	for i := range 120 {
		kills = append(kills, v1alpha1.KillRecord{ID: fmt.Sprint(i)})
		st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: fmt.Sprint("10.0.0.", i)})
		st.HostIPs = append(st.HostIPs, corev1.HostIP{IP: fmt.Sprint("10.0.1.", i)})
	}
	got := NodeWorkload(NodeWorkloadInput{Pod: pod(), Status: st, TemplateHash: long, Kills: kills, Now: t0})
	lengths := map[string]int{
		"reason": len(got.Reason) / 2, "message": len(got.Message) / 2, "summary": len(got.Summary) / 2, "templateHash": len(got.TemplateHash) / 2,
		"conditions[0].reason": len(got.Conditions[0].Reason) / 2, "conditions[0].message": len(got.Conditions[0].Message) / 2,
		"kills": len(got.Kills), "podIPs": len(got.PodIPs), "hostIPs": len(got.HostIPs),
	}
	want := map[string]int{
		"reason": 256, "message": 4096, "summary": 256, "templateHash": 64,
		"conditions[0].reason": 1024, "conditions[0].message": 32768, "kills": 100, "podIPs": 16, "hostIPs": 16,
	}
	if diff := cmp.Diff(want, lengths); diff != "" {
		t.Errorf("Lengths (-want +got):\n%s", diff)
	}
}

// A restarted shim reads its status back and continues as if it had never left.
func TestPodStatusRoundTrip(t *testing.T) {
	restartAll := corev1.Container{Name: "c", RestartPolicyRules: []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}}
	initPod := withInit(pod(corev1.Container{Name: "c"}), corev1.Container{Name: "i"})
	tests := map[string]Input{
		"running":       {Pod: pod(corev1.Container{Name: "c"}), Observed: observed(running("c"))},
		"nothing there": {Pod: pod(corev1.Container{Name: "c"})},
		"restart rules": {Pod: pod(restartAll), Observed: observed(running("c"))},
		"initializing":  {Pod: initPod, Observed: observed(running("i"))},
		"failed":        {Pod: pod(corev1.Container{Name: "c"}), Observed: observed(exited("c", 1)), Terminal: true},
		"evicted":       {Pod: pod(corev1.Container{Name: "c"}), Ending: &plan.Termination{Reason: "DeadlineExceeded", Message: "too long"}},
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			in.Now, in.RuntimeName, in.HostIPs = t0, "containerd", []string{"192.0.2.1"}
			before := Compute(in)
			stored := NodeWorkload(NodeWorkloadInput{Generation: in.Pod.Generation, Pod: in.Pod, Status: before, Now: t0})
			back := PodStatus(&stored)
			in.Previous, in.Now = &back, t0.Add(time.Hour)
			after := Compute(in)
			// Not reported, so that its time is lost.
			conditionByType(after.Conditions, corev1.PodScheduled).LastTransitionTime = metav1.NewTime(t0)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("Status after a restart (-before +after):\n%s", diff)
			}
		})
	}
}

func TestPodStatusOfNewObject(t *testing.T) {
	got := PodStatus(&v1alpha1.NodeWorkloadStatus{ObservedGeneration: -1})
	if diff := cmp.Diff(corev1.PodStatus{}, got); diff != "" {
		t.Errorf("PodStatus (-want +got):\n%s", diff)
	}
}

func TestTerminated(t *testing.T) {
	unseen := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
	}}
	ok := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	wait := waiting("PodInitializing", "")
	run := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	yes := true
	main := corev1.Container{Name: "c"}
	sidecar := corev1.Container{Name: "i", RestartPolicy: &always}
	tests := map[string]struct {
		pod                *corev1.Pod
		phase              corev1.PodPhase
		init, main         []corev1.ContainerStatus
		wantInit, wantMain []corev1.ContainerState
		wantPhase          corev1.PodPhase
		wantReason         string
	}{
		"a container whose end was not seen": {
			pod: pod(main), phase: corev1.PodRunning, main: []corev1.ContainerStatus{{Name: "c", State: run}},
			wantMain: []corev1.ContainerState{unseen}, wantPhase: corev1.PodFailed, wantReason: "PodFailed",
		},
		"a success stays one": {
			pod: pod(main), phase: corev1.PodSucceeded, main: []corev1.ContainerStatus{{Name: "c", State: ok}},
			wantMain: []corev1.ContainerState{ok}, wantPhase: corev1.PodSucceeded, wantReason: "PodCompleted",
		},
		"never initialized": {
			pod: withInit(pod(main), corev1.Container{Name: "i"}, corev1.Container{Name: "j"}), phase: corev1.PodPending,
			init:     []corev1.ContainerStatus{{Name: "i", State: run}, {Name: "j", State: wait}},
			main:     []corev1.ContainerStatus{{Name: "c", State: wait}},
			wantInit: []corev1.ContainerState{unseen, wait}, wantMain: []corev1.ContainerState{wait}, wantPhase: corev1.PodFailed, wantReason: "PodFailed",
		},
		"at least the first init container has been tried": {
			pod: withInit(pod(main), corev1.Container{Name: "i"}), phase: corev1.PodPending,
			init: []corev1.ContainerStatus{{Name: "i", State: wait}}, main: []corev1.ContainerStatus{{Name: "c", State: wait}},
			wantInit: []corev1.ContainerState{unseen}, wantMain: []corev1.ContainerState{wait}, wantPhase: corev1.PodFailed, wantReason: "PodFailed",
		},
		"initialized by its last init container": {
			pod: withInit(pod(main), corev1.Container{Name: "i"}), phase: corev1.PodPending,
			init: []corev1.ContainerStatus{{Name: "i", State: ok}}, main: []corev1.ContainerStatus{{Name: "c", State: wait}},
			wantInit: []corev1.ContainerState{ok}, wantMain: []corev1.ContainerState{unseen}, wantPhase: corev1.PodFailed, wantReason: "PodFailed",
		},
		"initialized by a sidecar that started": {
			pod: withInit(pod(main), sidecar), phase: corev1.PodPending,
			init: []corev1.ContainerStatus{{Name: "i", State: run, Started: &yes}}, main: []corev1.ContainerStatus{{Name: "c", State: wait}},
			wantInit: []corev1.ContainerState{unseen}, wantMain: []corev1.ContainerState{unseen}, wantPhase: corev1.PodFailed, wantReason: "PodFailed",
		},
		"initialized, for a main container ran": {
			pod: withInit(pod(main), corev1.Container{Name: "i"}), phase: corev1.PodRunning,
			main: []corev1.ContainerStatus{{Name: "c", State: run}}, wantMain: []corev1.ContainerState{unseen}, wantPhase: corev1.PodFailed, wantReason: "PodFailed",
		},
		"nothing known": {
			pod: withInit(pod(main), corev1.Container{Name: "i"}), phase: corev1.PodPending, wantPhase: corev1.PodFailed, wantReason: "PodFailed",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			st := corev1.PodStatus{
				Phase: tc.phase, InitContainerStatuses: tc.init, ContainerStatuses: tc.main,
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			}
			before := st.DeepCopy()
			got := Terminated(tc.pod, *st.DeepCopy(), st, t0)
			if diff := cmp.Diff(before, &st); diff != "" {
				t.Errorf("The given status was changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantInit, states(got.InitContainerStatuses)); diff != "" {
				t.Errorf("Init containers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantMain, states(got.ContainerStatuses)); diff != "" {
				t.Errorf("Main containers (-want +got):\n%s", diff)
			}
			wantReady := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: tc.wantReason, LastTransitionTime: metav1.NewTime(t0)}
			if diff := cmp.Diff(&wantReady, conditionByType(got.Conditions, corev1.PodReady)); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
			if got.Phase != tc.wantPhase {
				t.Errorf("phase = %s, want %s", got.Phase, tc.wantPhase)
			}
		})
	}
}

func states(statuses []corev1.ContainerStatus) []corev1.ContainerState {
	var list []corev1.ContainerState
	for i := range statuses {
		list = append(list, statuses[i].State)
	}
	return list
}

// The vectors leave no doubt about containers; this keeps the words readable.
func TestComputeLostContainer(t *testing.T) {
	previous := &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "c", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
	st := Compute(Input{Pod: pod(corev1.Container{Name: "c"}), Observed: &plan.PodStatus{}, Previous: previous, Now: t0})
	got := st.ContainerStatuses[0]
	if got.RestartCount != 3 || got.LastTerminationState.Terminated == nil || got.LastTerminationState.Terminated.Reason != "ContainerStatusUnknown" {
		t.Errorf("A container that vanished is reported as %+v", got)
	}
}
