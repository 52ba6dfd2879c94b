// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// reportedConditions are the pod's conditions that a NodeWorkload has, in order.
// PodScheduled says nothing here.
var reportedConditions = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	corev1.AllContainersRestarting, corev1.DisruptionTarget, corev1.PodResizeInProgress, v1alpha1.ConditionForeignContainers,
	v1alpha1.ConditionVolumeSizePending, v1alpha1.ConditionVolumesOutdated,
	v1alpha1.ConditionPodCgroupMissing,
}

// shimConditions are the conditions of the shim beside those of the pod.
var shimConditions = []string{
	v1alpha1.ConditionTemplateAccepted, v1alpha1.ConditionKillFailing, v1alpha1.ConditionRuntimeUsable,
	v1alpha1.ConditionCheckpointFailing, v1alpha1.ConditionUpdateWaiting,
	v1alpha1.ConditionHeld, v1alpha1.ConditionRestartBackoffRaised,
}

// nodeWorkloadConditions returns the pod's conditions, the shim's own, and those
// of others as they are.
func nodeWorkloadConditions(in NodeWorkloadInput, st *corev1.PodStatus, previous []metav1.Condition) []metav1.Condition {
	var conditions []metav1.Condition
	for _, t := range reportedConditions {
		if c := conditionByType(st.Conditions, t); c != nil {
			conditions = append(conditions, metav1.Condition{
				Type:               string(t),
				Status:             metav1.ConditionStatus(c.Status),
				Reason:             c.Reason,
				Message:            c.Message,
				LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	for _, c := range in.Conditions {
		c.LastTransitionTime = metav1.Time{}
		conditions = append(conditions, c)
	}
	for i := range conditions {
		complete(&conditions[i], in, previous)
	}
	for _, c := range previous {
		if !isShims(c.Type) && conditionIndex(conditions, c.Type) < 0 {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// complete sets what a condition of the API must have.
func complete(c *metav1.Condition, in NodeWorkloadInput, previous []metav1.Condition) {
	c.ObservedGeneration = in.Generation
	if c.Reason == "" {
		c.Reason = defaultReason(c.Type, c.Status)
	}
	c.Reason = truncateRunes(c.Reason, 1024)
	c.Message = shown(c.Message, 32768)
	if !c.LastTransitionTime.IsZero() {
		return // the pod's own
	}
	c.LastTransitionTime = metav1.NewTime(in.Now).Rfc3339Copy()
	if i := conditionIndex(previous, c.Type); i >= 0 && previous[i].Status == c.Status {
		c.LastTransitionTime = previous[i].LastTransitionTime
	}
}

// defaultReasons are for conditions to which the kubelet gives no reason: a
// metav1.Condition must have one.
var defaultReasons = map[corev1.PodConditionType]map[metav1.ConditionStatus]string{
	corev1.PodReadyToStartContainers: {metav1.ConditionTrue: "SandboxReady", metav1.ConditionFalse: "SandboxNotReady"},
	corev1.PodInitialized:            {metav1.ConditionTrue: "ContainersInitialized"},
	corev1.ContainersReady:           {metav1.ConditionTrue: "ContainersReady"},
	corev1.PodReady:                  {metav1.ConditionTrue: "PodReady"},
	corev1.AllContainersRestarting:   {metav1.ConditionFalse: "NotRestarting"},
	corev1.PodResizeInProgress:       {metav1.ConditionTrue: "Resizing"},
}

func defaultReason(conditionType string, status metav1.ConditionStatus) string {
	if reason := defaultReasons[corev1.PodConditionType(conditionType)][status]; reason != "" {
		return reason
	}
	return conditionType
}

// podConditions returns the pod's conditions among those of a NodeWorkload, with
// the reasons the kubelet gave them.
func podConditions(conditions []metav1.Condition) []corev1.PodCondition {
	var list []corev1.PodCondition
	for _, c := range conditions {
		if !slices.Contains(reportedConditions, corev1.PodConditionType(c.Type)) {
			continue
		}
		reason := c.Reason
		if reason == defaultReason(c.Type, c.Status) {
			reason = ""
		}
		list = append(list, corev1.PodCondition{
			Type:               corev1.PodConditionType(c.Type),
			ObservedGeneration: c.ObservedGeneration,
			Status:             corev1.ConditionStatus(c.Status),
			LastTransitionTime: c.LastTransitionTime,
			Reason:             reason,
			Message:            c.Message,
		})
	}
	return list
}

func isShims(conditionType string) bool {
	return slices.Contains(shimConditions, conditionType) ||
		slices.Contains(reportedConditions, corev1.PodConditionType(conditionType))
}

func conditionIndex(conditions []metav1.Condition, conditionType string) int {
	return slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == conditionType })
}
