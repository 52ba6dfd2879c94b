// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// The status of a pod that was active for too long. (kubelet active_deadline.go)
const (
	ReasonDeadlineExceeded  = "DeadlineExceeded"
	messageDeadlineExceeded = "Pod was active on the node longer than the specified deadline"
)

// ActiveDeadline returns when a pod has been active for activeDeadlineSeconds,
// counted from the start time of the status computed before; false when it has
// no such deadline or has not started.
func ActiveDeadline(pod *corev1.Pod, previous *corev1.PodStatus) (time.Time, bool) {
	if pod == nil || pod.Spec.ActiveDeadlineSeconds == nil || previous == nil || previous.StartTime.IsZero() {
		return time.Time{}, false
	}
	// The API server admits no longer one to a Pod, and one much longer overflows.
	seconds := min(*pod.Spec.ActiveDeadlineSeconds, math.MaxInt32)
	return previous.StartTime.Add(time.Duration(seconds) * time.Second), true
}

// PastActiveDeadline returns the end of a pod that was active for too long, nil if it
// was not. A pod that has ended is left as it is, where the kubelet writes the reason
// into the status of one that succeeded in time; one that was ended by its deadline
// keeps the reason, whatever its containers answer.
// (kubelet active_deadline.go:pastActiveDeadline)
func PastActiveDeadline(pod *corev1.Pod, previous *corev1.PodStatus, now time.Time) *Termination {
	if previous != nil && Ended(previous.Phase) {
		if previous.Reason == ReasonDeadlineExceeded {
			return deadlineTermination()
		}
		return nil
	}
	if at, ok := ActiveDeadline(pod, previous); !ok || now.Before(at) {
		return nil
	}
	return deadlineTermination()
}

func deadlineTermination() *Termination {
	return &Termination{
		Trigger: v1alpha1.TriggerTermination, RequestedBy: requestedByDeadline,
		Reason: ReasonDeadlineExceeded, Message: messageDeadlineExceeded,
	}
}
