// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// pressureWords are the kubelet's about a condition of the Node, while it is true and while it is
// false. (kubelet nodestatus/setters.go)
type pressureWords struct{ reason, message, goodReason, goodMessage string }

var pressureTexts = map[corev1.NodeConditionType]pressureWords{
	corev1.NodeMemoryPressure: {
		"KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
		"KubeletHasSufficientMemory", "kubelet has sufficient memory available",
	},
	corev1.NodeDiskPressure: {
		"KubeletHasDiskPressure", "kubelet has disk pressure",
		"KubeletHasNoDiskPressure", "kubelet has no disk pressure",
	},
	corev1.NodePIDPressure: {
		"KubeletHasInsufficientPID", "kubelet has insufficient PID available",
		"KubeletHasSufficientPID", "kubelet has sufficient PID available",
	},
}

// pressureConditions are those of the Node about what it is short of.
func (n *node) pressureConditions(now metav1.Time) []corev1.NodeCondition {
	if n.pressure == nil {
		return nil
	}
	short := n.pressure()
	conditions := make([]corev1.NodeCondition, 0, len(plan.PressureConditions))
	for _, kind := range plan.PressureConditions {
		words := pressureTexts[kind]
		c := corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: words.goodReason, Message: words.goodMessage,
			LastHeartbeatTime: now, LastTransitionTime: now,
		}
		if slices.Contains(short, kind) {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, words.reason, words.message
		}
		conditions = append(conditions, c)
	}
	return conditions
}

// hasConditions reports whether a Node has conditions of these types with the same status.
func hasConditions(found *corev1.Node, conditions []corev1.NodeCondition) bool {
	return !slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool {
		there := nodeCondition(found, c.Type)
		return there == nil || there.Status != c.Status
	})
}
