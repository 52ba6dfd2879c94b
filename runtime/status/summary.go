// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	corev1 "k8s.io/api/core/v1"
)

// Summary is what kubectl prints about a Pod.
type Summary struct {
	// Status is the STATUS column: Running, CrashLoopBackOff, Terminating, ...
	Status string
	// Ready is the READY column: "ready containers/all containers".
	Ready string
	// Restarts is the number in the RESTARTS column.
	Restarts int32
}

// Summarize returns what kubectl get pod prints for a pod with that status.
// (kubernetes pkg/printers/internalversion/printers.go:printPod)
func Summarize(pod *corev1.Pod, st *corev1.PodStatus) Summary {
	return Summary{}
}
