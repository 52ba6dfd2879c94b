// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The values that may stand where the plan would read any other one as a
// default.
var (
	sandboxStates   = []plan.SandboxState{plan.SandboxReady, plan.SandboxNotReady}
	networkModes    = []string{"", plan.NetworkPod, plan.NetworkNode, "CONTAINER", "TARGET"}
	containerStates = []plan.ContainerState{
		plan.ContainerCreated, plan.ContainerRunning, plan.ContainerExited, plan.ContainerUnknown,
	}
	verdicts    = []plan.ProbeResult{plan.ProbeSuccess, plan.ProbeFailure, plan.ProbeUnknown}
	podPolicies = []corev1.RestartPolicy{
		"", corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever,
	}
	containerPolicies = []corev1.ContainerRestartPolicy{
		corev1.ContainerRestartPolicyAlways,
		corev1.ContainerRestartPolicyOnFailure,
		corev1.ContainerRestartPolicyNever,
	}
	ruleActions = []corev1.ContainerRestartRuleAction{
		corev1.ContainerRestartRuleActionRestart,
		corev1.ContainerRestartRuleActionRestartAllContainers,
	}
	ruleOperators = []corev1.ContainerRestartRuleOnExitCodesOperator{
		corev1.ContainerRestartRuleOnExitCodesOpIn,
		corev1.ContainerRestartRuleOnExitCodesOpNotIn,
	}
)

func oneOf[T ~string](field string, value T, allowed []T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: unknown value %q", field, value)
}

func checkPod(pod *corev1.Pod) error {
	errs := []error{oneOf("pod.spec.restartPolicy", pod.Spec.RestartPolicy, podPolicies)}
	for i := range pod.Spec.InitContainers {
		errs = append(errs, checkContainer(fmt.Sprintf("pod.spec.initContainers[%d]", i), &pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		errs = append(errs, checkContainer(fmt.Sprintf("pod.spec.containers[%d]", i), &pod.Spec.Containers[i]))
	}
	return errors.Join(errs...)
}

func checkContainer(field string, c *corev1.Container) error {
	var errs []error
	if c.RestartPolicy != nil {
		errs = append(errs, oneOf(field+".restartPolicy", *c.RestartPolicy, containerPolicies))
	}
	for i, rule := range c.RestartPolicyRules {
		ruleField := fmt.Sprintf("%s.restartPolicyRules[%d]", field, i)
		errs = append(errs, oneOf(ruleField+".action", rule.Action, ruleActions))
		if rule.ExitCodes != nil {
			errs = append(errs, oneOf(ruleField+".exitCodes.operator", rule.ExitCodes.Operator, ruleOperators))
		}
	}
	return errors.Join(errs...)
}

func (s *podStatus) check() error {
	var errs []error
	for i := range s.Sandboxes {
		field := fmt.Sprintf("podStatus.sandboxes[%d]", i)
		errs = append(errs,
			oneOf(field+".state", s.Sandboxes[i].State, sandboxStates),
			oneOf(field+".networkNamespace", s.Sandboxes[i].NetworkNamespace, networkModes))
	}
	for i := range s.Containers {
		field := fmt.Sprintf("podStatus.containers[%d].state", i)
		errs = append(errs, oneOf(field, s.Containers[i].State, containerStates))
	}
	return errors.Join(errs...)
}

func (p *probes) check() error {
	return cmp.Or(checkVerdicts("probes.liveness", p.Liveness), checkVerdicts("probes.startup", p.Startup))
}

func checkVerdicts(field string, results map[string]plan.ProbeResult) error {
	for _, id := range slices.Sorted(maps.Keys(results)) {
		if err := oneOf(fmt.Sprintf("%s[%q]", field, id), results[id], verdicts); err != nil {
			return err
		}
	}
	return nil
}
