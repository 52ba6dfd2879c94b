// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// clockTolerance is how far a node's clock may be off until its times are not used.
const clockTolerance = time.Minute

// apart reports whether two times differ by more than clocks may.
func apart(a, b time.Time) bool { return a.Sub(b).Abs() > clockTolerance }

// written is when the status of nw was last changed by its shim, by the API server's clock;
// zero where managedFields do not say it.
func written(nw *v1alpha1.NodeWorkload) time.Time {
	var last time.Time
	for i := range nw.ManagedFields {
		e := &nw.ManagedFields[i]
		if e.Subresource == "status" && e.Manager != writes.FieldManager && e.Time != nil && e.Time.After(last) {
			last = e.Time.Time
		}
	}
	return last
}

// newest is the latest time in the status of nw that is of its node's clock.
func newest(nw *v1alpha1.NodeWorkload) time.Time {
	var last time.Time
	for i := range nw.Status.Conditions {
		if c := &nw.Status.Conditions[i]; c.Type != v1alpha1.ConditionShimResponding && c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	for i := range nw.Status.Kills {
		if at := lastWord(&nw.Status.Kills[i]); at.After(last) {
			last = at
		}
	}
	return last
}

// lastWord is the latest time of a kill record.
func lastWord(r *v1alpha1.KillRecord) time.Time {
	if r.FinishTime != nil {
		return r.FinishTime.Time
	}
	return r.StartTime.Time
}

// agrees reports whether the clock of the node of nw is known to agree with the API server's:
// what its status says happened last happened when the status was written.
func agrees(nw *v1alpha1.NodeWorkload) bool {
	at := written(nw)
	return !at.IsZero() && !apart(newest(nw), at)
}

// believed is a time of the status of nw, as far as its node's clock can be believed. What a
// status says was so when it was written: that is the latest that it can have begun, and it
// stays the same over restarts of the manager. Of a node whose clock is behind a time of its
// own would be too early, and what became ready just now would count as available at once.
func believed(nw *v1alpha1.NodeWorkload, at time.Time) time.Time {
	if latest := written(nw); !latest.IsZero() && !agrees(nw) {
		return latest
	}
	return at
}
