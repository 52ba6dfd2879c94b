// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Terminated returns the last status of a pod whose containers are all gone:
// every container that may have run is reported as ended, and the phase is
// terminal; conditions that change for it do so now. Whether the main containers
// may have run is a question of the status before the termination: an init
// container that was ended then and exited with 0 did not initialize the pod. The
// given status is not changed.
// (kubelet status/status_manager.go:TerminatePod)
func Terminated(pod *corev1.Pod, before, st corev1.PodStatus, now time.Time) corev1.PodStatus {
	st = *st.DeepCopy()
	if hasInitialized(pod, &before) {
		endUnseen(st.ContainerStatuses)
	}
	endUnseen(st.InitContainerStatuses[:initializedCount(st.InitContainerStatuses)])
	if !plan.Ended(st.Phase) {
		st.Phase = corev1.PodFailed
	}
	for i := range st.Conditions {
		condition := &st.Conditions[i]
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		if condition.Type == corev1.PodReady || condition.Type == corev1.ContainersReady {
			condition.Status = corev1.ConditionFalse
			condition.Reason = terminalReason(st.Phase)
			condition.Message = ""
			condition.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
		}
	}
	return st
}

// OfAnotherBoot returns the status of a pod that ran before the node was booted: none of its
// containers runs, so that none has started or is ready. How they ended is for the runtime to
// say. The given status is not changed.
func OfAnotherBoot(pod *corev1.Pod, st corev1.PodStatus, now time.Time) corev1.PodStatus {
	st = *st.DeepCopy()
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				list[i].Started, list[i].Ready = new(false), false
			}
		}
	}
	var spec corev1.PodSpec
	if pod != nil {
		spec = pod.Spec
	}
	down := containersReadyCondition(&spec, slices.Concat(st.InitContainerStatuses, st.ContainerStatuses), st.Phase)
	for i := range st.Conditions {
		c := &st.Conditions[i]
		switch {
		case c.Status != corev1.ConditionTrue:
			continue
		case c.Type == corev1.PodReadyToStartContainers:
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, "", ""
		case slices.Contains(readiness, c.Type) && down.Status != corev1.ConditionTrue:
			c.Status, c.Reason, c.Message = down.Status, down.Reason, down.Message
		default:
			continue
		}
		c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	}
	return st
}

func terminalReason(p corev1.PodPhase) string {
	if p == corev1.PodSucceeded {
		return reasonPodCompleted
	}
	return reasonPodFailed
}

// endUnseen reports containers whose end was not observed as ended.
func endUnseen(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		if statuses[i].State.Terminated == nil {
			statuses[i].State = corev1.ContainerState{
				Terminated: unseenExit(reasonContainerStatusUnknown, messageLocateTerminated),
			}
		}
	}
}

// hasInitialized is whether the main containers have been started, as far as
// the status says. (kubelet status/status_manager.go:hasPodInitialized)
func hasInitialized(pod *corev1.Pod, st *corev1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 {
		return true
	}
	for i := range st.ContainerStatuses {
		if hasRun(&st.ContainerStatuses[i]) {
			return true
		}
	}
	if len(st.InitContainerStatuses) == 0 {
		return false
	}
	last := &st.InitContainerStatuses[len(st.InitContainerStatuses)-1]
	if podspec.IsSidecar(containerByName(pod.Spec.InitContainers, last.Name)) {
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	return succeeded(last.State) || succeeded(last.LastTerminationState)
}

// initializedCount returns how many init containers have got as far as being
// started: all but those at the end that only wait; at least one.
// (kubelet status/status_manager.go:initializedContainers)
func initializedCount(statuses []corev1.ContainerStatus) int {
	for i := len(statuses) - 1; i >= 0; i-- {
		if hasRun(&statuses[i]) {
			return i + 1
		}
	}
	return min(len(statuses), 1)
}

func hasRun(status *corev1.ContainerStatus) bool {
	return status.State.Waiting == nil || status.LastTerminationState.Terminated != nil
}

func succeeded(state corev1.ContainerState) bool {
	return state.Terminated != nil && state.Terminated.ExitCode == 0
}
