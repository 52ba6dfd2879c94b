// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// untilDeadline is when to look whether a workload was active for too long: not in
// a hurry, for what is overdue may be so because the runtime does not answer.
func (s *scope) untilDeadline(d desired) (time.Duration, bool) {
	at, ok := status.ActiveDeadline(d.pod, s.mem.podStatus())
	if !ok || s.mem.state() != Syncing {
		return 0, false
	}
	return max(repeatDelay, at.Sub(s.cfg.Clock.Now())), true
}

// termination is what the end of the workload is recorded as.
func (s *scope) termination(d desired) plan.Termination {
	st := s.mem.podStatus()
	return plan.DecideTermination(plan.TerminationFacts{
		Deleted: d.deleted, Orphan: d.orphan, RequestedBy: d.requestedBy,
		DeadlineExceeded: st != nil && st.Reason == status.ReasonDeadlineExceeded,
	})
}
