// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// The status of a pod that was active for too long. (kubelet active_deadline.go)
const (
	ReasonDeadlineExceeded  = "DeadlineExceeded"
	messageDeadlineExceeded = "Pod was active on the node longer than the specified deadline"
)

// Activity is when a pod became active, by a clock that is not set.
type Activity struct {
	// StartTime is the start time of the status that this belongs to.
	StartTime metav1.Time `json:"startTime"`
	// Began is the same as the time since boot. It is negative for a pod that became
	// active before the boot.
	Began time.Duration `json:"began"`
}

// Seen returns the activity of a pod whose status has that start time: a as long as it
// is the same, else one that is taken from the wall clock, which is the only one then.
// It is nil for a pod that has not started.
func (a *Activity) Seen(startTime *metav1.Time, now Moment) *Activity {
	if startTime.IsZero() || (a != nil && a.StartTime.Equal(startTime)) {
		return a
	}
	return &Activity{StartTime: *startTime, Began: now.SinceBoot - max(0, now.Wall.Sub(startTime.Time))}
}

// Active returns for how long the pod has been active, 0 if it has not started.
func (a *Activity) Active(now Moment) time.Duration {
	if a == nil {
		return 0
	}
	return now.SinceBoot - a.Began
}

// ActiveDeadline returns for how long a pod may be active; false when it has no such
// deadline or, by the status computed before, has not started.
func ActiveDeadline(pod *corev1.Pod, previous *corev1.PodStatus) (time.Duration, bool) {
	if pod == nil || pod.Spec.ActiveDeadlineSeconds == nil || previous == nil || previous.StartTime.IsZero() {
		return 0, false
	}
	// The API server admits no longer one to a Pod, and one much longer overflows.
	seconds := min(*pod.Spec.ActiveDeadlineSeconds, math.MaxInt32)
	return time.Duration(seconds) * time.Second, true
}

// PastActiveDeadline returns the end of a pod that was active for too long, nil if it
// was not. A pod that has ended is left as it is, where the kubelet writes the reason
// into the status of one that succeeded in time; one that was ended by its deadline
// keeps the reason, whatever its containers answer.
// (kubelet active_deadline.go:pastActiveDeadline)
func PastActiveDeadline(pod *corev1.Pod, previous *corev1.PodStatus, active time.Duration) *Termination {
	if previous != nil && Ended(previous.Phase) {
		if previous.Reason == ReasonDeadlineExceeded {
			return deadlineTermination()
		}
		return nil
	}
	if limit, ok := ActiveDeadline(pod, previous); !ok || active < limit {
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
