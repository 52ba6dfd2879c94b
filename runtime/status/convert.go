// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// NodeWorkloadInput is what the status of a NodeWorkload is made of.
type NodeWorkloadInput struct {
	// Previous is the status the object has now; its conditions that are not the
	// shim's (ShimResponding) are carried over, and times of conditions that do
	// not change are kept.
	Previous *v1alpha1.NodeWorkloadStatus
	// Generation is the generation of the spec that the status is about.
	Generation int64
	// TemplateHash identifies the template that runs.
	TemplateHash string
	// Pod is the desired pod that Status was computed for.
	Pod *corev1.Pod
	// Status is the computed status of the pod.
	Status corev1.PodStatus
	// Conditions are the shim's own beside those of the pod (TemplateAccepted,
	// KillFailing, RuntimeUsable), all of them: one that is missing is removed.
	// Their times and generations are set here.
	Conditions []metav1.Condition
	// Kills are the kill records (AddKill), newest first.
	Kills []v1alpha1.KillRecord
	// KillCount is the number of kills that have begun since the object exists.
	KillCount int64
	// ContainersMayRun holds a terminal phase back until the containers are
	// gone, as the kubelet does for the API. (status_manager.go:mergePodStatus)
	ContainersMayRun bool
	// Now is the time of conditions that change.
	Now time.Time
}

// NodeWorkload returns the status of a NodeWorkload.
func NodeWorkload(in NodeWorkloadInput) v1alpha1.NodeWorkloadStatus {
	return v1alpha1.NodeWorkloadStatus{}
}

// PodStatus returns the pod status that a NodeWorkload's status was made of, as
// Input.Previous for a shim that has just started.
func PodStatus(st *v1alpha1.NodeWorkloadStatus) corev1.PodStatus {
	return corev1.PodStatus{}
}
