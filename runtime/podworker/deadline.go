// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/status"
)

// deadlineRequester is who asked for the end of a workload whose active deadline
// is over.
const deadlineRequester = "shim (activeDeadlineSeconds)"

// eviction tells why the workload must end before its containers have, and writes
// the event when that is news. (kubelet active_deadline.go:ShouldEvict)
func (w *worker) eviction(d desired, now time.Time) *status.Reason {
	previous := w.previous()
	reason := status.Eviction(d.pod, previous, now)
	if reason != nil && !ended(previous) {
		w.cfg.Events.Event(d.pod, "", corev1.EventTypeNormal, reason.Reason, reason.Message)
	}
	return reason
}

// untilDeadline is when to look whether a workload was active for too long: not in
// a hurry, for what is overdue may be so because the runtime does not answer.
func (w *worker) untilDeadline(d desired) (time.Duration, bool) {
	at, ok := status.ActiveDeadline(d.pod, w.previous())
	if !ok || w.state() != Syncing {
		return 0, false
	}
	return max(repeatDelay, time.Until(at)), true
}

// requester is who asked for the end of the workload.
func (w *worker) requester(d desired) string {
	if st := w.previous(); !d.deleted && st != nil && st.Reason == status.ReasonDeadlineExceeded {
		return deadlineRequester
	}
	return d.requester()
}
