// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

const (
	// maxDescribed is how many nodes a message describes.
	maxDescribed = 3
	// maxComplaint is how much it says about one.
	maxComplaint = 256
)

// notReadyMessage is why nodes are not ready: "n1: 0/1 ready, readiness probe failing".
func notReadyMessage(list []*nodeView) string {
	var parts []string
	for _, n := range list[:min(len(list), maxDescribed)] {
		parts = append(parts, n.name+": "+writes.Limit(complaint(n.nodeWorkload), maxComplaint))
	}
	return strings.Join(parts, "; ") + andMore(len(list)-maxDescribed)
}

// failedMessage is how the containers ended on nodes where they will not be
// restarted: "Failed on n1, exit code 3; will not restart".
func failedMessage(list []*nodeView) string {
	var parts []string
	for _, n := range list[:min(len(list), maxDescribed)] {
		parts = append(parts, n.name+", "+writes.Limit(failure(n.nodeWorkload), maxComplaint))
	}
	return "Failed on " + strings.Join(parts, "; on ") + andMore(len(list)-maxDescribed) + "; will not restart"
}

// complaint is why a NodeWorkload is not ready.
func complaint(nw *v1alpha1.NodeWorkload) string {
	if refusal := shimRefusal(nw); refusal != "" {
		return refusal
	}
	switch nw.Status.Summary {
	case "":
		return "nothing reported yet"
	case string(corev1.PodRunning):
		return nw.Status.Ready + " ready, " + unready(nw)
	}
	return nw.Status.Ready + " ready, " + nw.Status.Summary
}

// shimRefusal is why the shim does not run the template, "" if it does.
func shimRefusal(nw *v1alpha1.NodeWorkload) string {
	for _, kind := range []string{v1alpha1.ConditionTemplateAccepted, v1alpha1.ConditionRuntimeUsable} {
		if c := meta.FindStatusCondition(nw.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// unready is why a container that runs is not ready.
func unready(nw *v1alpha1.NodeWorkload) string {
	for _, c := range slices.Concat(nw.Status.InitContainerStatuses, nw.Status.ContainerStatuses) {
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

// failure is how a workload ended that failed.
func failure(nw *v1alpha1.NodeWorkload) string {
	if refusal := shimRefusal(nw); refusal != "" {
		return refusal
	}
	if nw.Status.Reason != "" {
		// An exit code is about a container, and this is why all of them ended.
		return nw.Status.Reason + ": " + nw.Status.Message
	}
	for _, c := range slices.Concat(nw.Status.ContainerStatuses, nw.Status.InitContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			if t.Reason == "" || t.Reason == "Error" {
				return fmt.Sprintf("exit code %d", t.ExitCode)
			}
			return fmt.Sprintf("exit code %d (%s)", t.ExitCode, t.Reason)
		}
	}
	return nw.Status.Summary
}
