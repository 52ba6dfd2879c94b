// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	"github.com/managedworkload/managedworkload/runtime/status"
)

// deadlineRequester is who asked for the end of a workload whose active deadline
// is over.
const deadlineRequester = "shim (activeDeadlineSeconds)"

// untilDeadline is when to look whether a workload was active for too long: not in
// a hurry, for what is overdue may be so because the runtime does not answer.
func (s *scope) untilDeadline(d desired) (time.Duration, bool) {
	at, ok := status.ActiveDeadline(d.pod, s.mem.podStatus())
	if !ok || s.mem.state() != Syncing {
		return 0, false
	}
	return max(repeatDelay, time.Until(at)), true
}

// requester is who asked for the end of the workload.
func (s *scope) requester(d desired) string {
	if st := s.mem.podStatus(); !d.deleted && st != nil && st.Reason == status.ReasonDeadlineExceeded {
		return deadlineRequester
	}
	return d.requester()
}
