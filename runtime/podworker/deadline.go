// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// untilDeadline is when to look whether a workload was active for too long: not in
// a hurry, because what is overdue may be so because the runtime does not answer.
func (s *scope) untilDeadline(d desired) (time.Duration, bool) {
	limit, ok := plan.ActiveDeadline(d.pod, s.mem.podStatus())
	if !ok || s.mem.state() != Syncing {
		return 0, false
	}
	return max(repeatDelay, limit-s.mem.active(s.moment())), true
}

// moment is the present by the node's two clocks.
func (s *scope) moment() plan.Moment {
	c := s.cfg.Clock
	return plan.Moment{Wall: c.Now(), SinceBoot: c.SinceBoot(), BootID: c.BootID()}
}

// termination is what the end of the workload is recorded as.
func (s *scope) termination(d desired) plan.Termination {
	t, _ := plan.DecideTermination(d.existence(s.mem.podStatus()))
	return t
}

// terminates is whether the workload is terminated instead of synced.
func (d desired) terminates(st *corev1.PodStatus) bool {
	_, terminate := plan.DecideTermination(d.existence(st))
	return terminate
}

func (d desired) existence(st *corev1.PodStatus) plan.Existence {
	return plan.Existence{Deleted: d.deleted, Orphan: d.orphan, RequestedBy: d.requestedBy, Asked: d.asked, Status: st}
}
