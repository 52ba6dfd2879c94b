// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// ShouldAllContainersRestart is whether the pod starts over: the condition
// AllContainersRestarting says that it already does, or an init or main
// container exited with a code whose rule asks for it. Either status may be nil.
// (kubelet container/helpers.go:ShouldAllContainersRestart)
func ShouldAllContainersRestart(pod *corev1.Pod, observed *PodStatus, api *corev1.PodStatus) bool {
	if AllContainersRestarting(api) {
		return true
	}
	for c := range podspec.InitAndMain(pod) {
		var codes []int32
		if observed != nil {
			status := observed.Current(c.Name)
			if status == nil || status.State != ContainerExited {
				// What the API says of it is out of date then.
				continue
			}
			codes = append(codes, status.ExitCode)
		}
		if terminated := terminatedState(api, c.Name); terminated != nil {
			codes = append(codes, terminated.ExitCode)
		}
		for _, code := range codes {
			if asksForRestartOfAll(c, code) {
				return true
			}
		}
	}
	return false
}

// AllContainersRestartCleanedUp is whether the runtime has none of the pod's
// containers any more, so that it can start over.
// (kubelet container/helpers.go:AllContainersRestartCleanedUp)
func AllContainersRestartCleanedUp(pod *corev1.Pod, observed *PodStatus) bool {
	for c := range podspec.InitAndMain(pod) {
		if observed.Current(c.Name) != nil {
			return false
		}
	}
	return true
}

// AllContainersCouldRestart is whether any rule of the pod has the action
// RestartAllContainers. (kubelet api/v1/pod:AllContainersCouldRestart)
func AllContainersCouldRestart(pod *corev1.Pod) bool {
	for c := range podspec.InitAndMain(pod) {
		for _, rule := range c.RestartPolicyRules {
			if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// asksForRestartOfAll is whether an exit with that code starts the pod over.
func asksForRestartOfAll(c *corev1.Container, exitCode int32) bool {
	rule, found := MatchingRestartRule(c, exitCode)
	return found && rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// AllContainersRestarting is whether a status says that the pod starts over; it may be
// nil. (kubelet kubelet.go:SyncPod)
func AllContainersRestarting(api *corev1.PodStatus) bool {
	if api == nil {
		return false
	}
	for _, cond := range api.Conditions {
		if cond.Type == corev1.AllContainersRestarting && cond.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// terminatedState returns how a container of the API status ended, nil if it
// did not. The last entry of a name counts.
func terminatedState(api *corev1.PodStatus, name string) *corev1.ContainerStateTerminated {
	if api == nil {
		return nil
	}
	for _, list := range [][]corev1.ContainerStatus{api.ContainerStatuses, api.InitContainerStatuses} {
		for _, status := range slices.Backward(list) {
			if status.Name == name {
				return status.State.Terminated
			}
		}
	}
	return nil
}
