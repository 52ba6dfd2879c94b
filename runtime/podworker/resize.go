// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/status"
)

// Words of the kubelet about resizes. (kubelet events/event.go, events/resize.go)
const (
	resizeStartedReason    = "ResizeStarted"
	resizeStartedMessage   = "Pod resize started"
	resizeCompletedReason  = "ResizeCompleted"
	resizeCompletedMessage = "Pod resize completed"
	resizeErrorReason      = "ResizeError"
	resizeErrorMessage     = "Pod resize error"
)

// resize is what was reported about a change of resources in place.
type resize struct {
	// generation asks for the change; 0 if none does.
	generation int64
	// failed is why the last try failed, and reported the one that an event said.
	failed, reported string
}

// nextResize computes what is reported next about a resize, why resources are on their
// way to what the template says (nil if they are there), and the events that are due.
// (kubelet kubelet.go:SyncPod)
func (v view) nextResize() (next resize, resizing *status.Reason, due []notice) {
	before, pod := v.resize, v.wanted // what waits is still reported as it was made
	if !v.syncing || pod == nil {
		return resize{}, nil, nil
	}
	if !v.inProgress {
		if before.generation != 0 {
			due = append(due, before.notice(pod, corev1.EventTypeNormal, resizeCompletedReason, resizeCompletedMessage))
		}
		return resize{}, nil, due
	}
	next = before
	if before.generation != pod.Generation {
		next = resize{generation: pod.Generation}
		due = append(due, next.notice(pod, corev1.EventTypeNormal, resizeStartedReason, resizeStartedMessage))
	}
	if next.failed != "" && next.failed != next.reported {
		due = append(due, next.notice(pod, corev1.EventTypeWarning, resizeErrorReason, resizeErrorMessage))
	}
	next.reported = next.failed
	resizing = &status.Reason{}
	if next.failed != "" {
		resizing = &status.Reason{Reason: corev1.PodReasonError, Message: next.failed}
	}
	return next, resizing, due
}

// resizeSummary is what the kubelet says about a resize.
type resizeSummary struct {
	InitContainers []containerResources `json:"initContainers,omitempty"`
	Containers     []containerResources `json:"containers,omitempty"`
	Generation     int64                `json:"generation"`
	Error          string               `json:"error,omitempty"`
}

type containerResources struct {
	Name      string                      `json:"name"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

func (r resize) notice(pod *corev1.Pod, eventtype, reason, message string) notice {
	summary := resizeSummary{
		InitContainers: resourcesOf(pod.Spec.InitContainers),
		Containers:     resourcesOf(pod.Spec.Containers),
		Generation:     r.generation,
		Error:          r.failed,
	}
	if data, err := json.Marshal(summary); err == nil {
		message += ": " + string(data)
	}
	return notice{Type: eventtype, Reason: reason, Message: message}
}

func resourcesOf(containers []corev1.Container) []containerResources {
	var list []containerResources
	for i := range containers {
		list = append(list, containerResources{Name: containers[i].Name, Resources: containers[i].Resources})
	}
	return list
}
