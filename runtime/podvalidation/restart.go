// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the rules for restarts.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// restartRules checks when a container is restarted.
func (p *problems) restartRules(c *corev1.Container, path *field.Path) {
	policy, rules := path.Child("restartPolicy"), path.Child("restartPolicyRules")
	if c.RestartPolicy == nil && len(c.RestartPolicyRules) > 0 {
		p.add(field.Required(policy, "must specify restartPolicy when restart rules are used"))
	}
	optionalOneOf(p, policy, c.RestartPolicy,
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		p.add(field.TooMany(rules, n, maxRestartRules))
	}
	for i, rule := range c.RestartPolicyRules {
		at := rules.Index(i)
		optionalOneOf(p, at.Child("action"), &rule.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		if rule.ExitCodes == nil {
			p.add(field.Required(at.Child("exitCodes"), "must be specified"))
			continue
		}
		optionalOneOf(p, at.Child("exitCodes", "operator"), &rule.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(rule.ExitCodes.Values); n > maxExitCodes {
			p.add(field.TooMany(at.Child("exitCodes", "values"), n, maxExitCodes))
		}
	}
}

// resizePolicies checks what changed resources restart.
func (p *problems) resizePolicies(restart corev1.RestartPolicy, policies []corev1.ContainerResizePolicy, path *field.Path) {
	seen := map[string]bool{}
	for i, policy := range policies {
		at := path.Index(i)
		p.unique(at.Child("resourceName"), string(policy.ResourceName), seen)
		oneOf(p, at.Child("resourceName"), policy.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		oneOf(p, at.Child("restartPolicy"), policy.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if restart == corev1.RestartPolicyNever && policy.RestartPolicy != corev1.NotRequired {
			p.invalid(at.Child("restartPolicy"), policy.RestartPolicy,
				fmt.Sprintf("must be '%s' when pod `restartPolicy` is '%s'", corev1.NotRequired, corev1.RestartPolicyNever))
		}
	}
}
