// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// complaint is why a NodeWorkload with that status is not ready.
func complaint(status *v1alpha1.NodeWorkloadStatus) string {
	if refusal := shimRefusal(status); refusal != "" {
		return refusal
	}
	switch status.Summary {
	case "":
		return "nothing reported yet"
	case string(corev1.PodRunning):
		return status.Ready + " ready, " + unready(status)
	}
	return status.Ready + " ready, " + status.Summary
}

// shimRefusal is why the shim does not run the template, "" if it does.
func shimRefusal(status *v1alpha1.NodeWorkloadStatus) string {
	for _, kind := range []string{v1alpha1.ConditionTemplateAccepted, v1alpha1.ConditionRuntimeUsable} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// unready is why a container that runs is not ready.
func unready(status *v1alpha1.NodeWorkloadStatus) string {
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		switch {
		case c.Ready || c.State.Running == nil:
		case c.Started == nil || !*c.Started:
			return "startup probe not passed yet"
		default:
			return "readiness probe failing"
		}
	}
	return string(corev1.PodRunning)
}

// runs reports whether a container still runs.
func runs(status *v1alpha1.NodeWorkloadStatus) bool {
	return slices.ContainsFunc(slices.Concat(status.ContainerStatuses, status.InitContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil
	})
}

// failure is how a workload ended that failed.
func failure(status *v1alpha1.NodeWorkloadStatus) string {
	if refusal := shimRefusal(status); refusal != "" {
		return refusal
	}
	if status.Reason != "" {
		// An exit code is about a container, and this is why all of them ended.
		return status.Reason + ": " + status.Message
	}
	for _, c := range slices.Concat(status.ContainerStatuses, status.InitContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			if t.Reason == "" || t.Reason == "Error" {
				return fmt.Sprintf("exit code %d", t.ExitCode)
			}
			return fmt.Sprintf("exit code %d (%s)", t.ExitCode, t.Reason)
		}
	}
	return status.Summary
}
