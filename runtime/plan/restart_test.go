// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The kubelet's decisions are replayed; these are values that the API does not
// admit, and which must still lead somewhere.
func TestContainerShouldRestartOddValues(t *testing.T) {
	t.Parallel()
	rule := func(action corev1.ContainerRestartRuleAction, op corev1.ContainerRestartRuleOnExitCodesOperator) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{
			Action:    action,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: []int32{1}},
		}}
	}
	tests := map[string]struct {
		pod   corev1.RestartPolicy
		own   *corev1.ContainerRestartPolicy
		rules []corev1.ContainerRestartRule
		want  bool
	}{
		"no policy at all": {want: true},
		"own policy unknown, the pod's counts": {
			pod: corev1.RestartPolicyNever,
			own: new(corev1.ContainerRestartPolicy("Sometimes")),
		},
		"action unknown, the policy counts": {
			own:   new(corev1.ContainerRestartPolicyNever),
			rules: rule("Explode", corev1.ContainerRestartRuleOnExitCodesOpIn),
		},
		"operator unknown, the rule does not match": {
			own:   new(corev1.ContainerRestartPolicyNever),
			rules: rule(corev1.ContainerRestartRuleActionRestart, "Near"),
		},
		"rules without an own policy do not count": {
			pod:   corev1.RestartPolicyNever,
			rules: rule(corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleOnExitCodesOpIn),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(tt.pod, "a")
			c := &pod.Spec.Containers[0]
			c.RestartPolicy, c.RestartPolicyRules = tt.own, tt.rules
			if got := plan.ContainerShouldRestart(pod, c, 1); got != tt.want {
				t.Errorf("ContainerShouldRestart = %v, want %v", got, tt.want)
			}
		})
	}
}
