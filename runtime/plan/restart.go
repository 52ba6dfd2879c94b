// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// MatchingRestartRule returns the first of a container's restartPolicyRules
// that an exit code matches. Rules match by exitCodes only.
// (kubelet api/v1/pod:FindMatchingContainerRestartRule)
func MatchingRestartRule(c *corev1.Container, exitCode int32) (rule corev1.ContainerRestartRule, found bool) {
	for _, rule := range c.RestartPolicyRules {
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, exitCode)
		switch rule.ExitCodes.Operator {
		case corev1.ContainerRestartRuleOnExitCodesOpIn:
			found = listed
		case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
			found = !listed
		}
		if found {
			return rule, true
		}
	}
	return corev1.ContainerRestartRule{}, false
}

// ContainerShouldRestart is whether a container that exited with exitCode is
// started again: by its rules, else its own policy, else the pod's. Rules count
// only where the container has a policy of its own.
// (kubelet api/v1/pod:ContainerShouldRestart)
func ContainerShouldRestart(pod *corev1.Pod, c *corev1.Container, exitCode int32) bool {
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		if rule, found := MatchingRestartRule(c, exitCode); found && restarts(rule.Action) {
			return true
		}
		policy = ownPolicy(c, policy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		// Always, also when nothing says so.
		return true
	}
}

// restarts is whether a rule's action starts the container again.
func restarts(action corev1.ContainerRestartRuleAction) bool {
	return action == corev1.ContainerRestartRuleActionRestart ||
		action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// ownPolicy returns the policy of a container that has one, the pod's when it
// is none of the three.
func ownPolicy(c *corev1.Container, pod corev1.RestartPolicy) corev1.RestartPolicy {
	switch *c.RestartPolicy {
	case corev1.ContainerRestartPolicyAlways:
		return corev1.RestartPolicyAlways
	case corev1.ContainerRestartPolicyOnFailure:
		return corev1.RestartPolicyOnFailure
	case corev1.ContainerRestartPolicyNever:
		return corev1.RestartPolicyNever
	}
	return pod
}

// restartsWhenKilled is whether a container that is killed while it runs, or
// whose exit code is not known, is started again: by its own policy, else the
// pod's; rules have no exit code to match.
func restartsWhenKilled(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// ShouldContainerBeRestarted is whether a container that does not run is to be
// started. In a deleted pod none is.
// (kubelet container/helpers.go:ShouldContainerBeRestarted)
func ShouldContainerBeRestarted(pod *corev1.Pod, c *corev1.Container, observed *PodStatus) bool {
	return shouldBeRestarted(pod, c, observed.Current(c.Name))
}

func shouldBeRestarted(pod *corev1.Pod, c *corev1.Container, status *ContainerStatus) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return false
	case status == nil:
		return true
	case status.State == ContainerRunning:
		return false
	case status.State == ContainerUnknown, status.State == ContainerCreated:
		return true
	}
	return ContainerShouldRestart(pod, c, status.ExitCode)
}
