// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/managedworkload/managedworkload/api/v1alpha1"

// RecallRequests is what KillRequests ask as far as it was noted, for as long as nothing may be
// done or nothing was observed: what is kept stopped stays so, and a pod that is not ready for the
// sake of a request is not ready, until another instance is observed in place of the one to be
// restarted. observed is nil where nothing was. Nothing else is asked, and nothing is decided: a
// process that comes after another one must not take what it does not know yet for the end of a
// request.
func RecallRequests(requests []v1alpha1.NodeRequest, noted []v1alpha1.NodeRequestStatus, observed *PodStatus) RequestProgress {
	out := RequestProgress{}
	for i := range requests {
		a := advance{RequestInput: RequestInput{Before: noted, Observed: observed}, out: &out, request: &requests[i]}
		if at := a.noted(); at >= 0 && !over(noted[at].Phase) {
			a.recall(noted[at].Containers)
		}
	}
	return out
}

func (a *advance) recall(containers []v1alpha1.RequestContainerState) {
	for i := range containers {
		switch c := &containers[i]; {
		case c.Phase == v1alpha1.RequestHeld:
			a.hold(c)
		case c.Phase == v1alpha1.RequestInProgress && a.request.UnreadySeconds > 0 && !a.replaced(c):
			a.unready()
		}
	}
}

// replaced is whether another instance is observed than the one that a restart is about.
func (a *advance) replaced(c *v1alpha1.RequestContainerState) bool {
	if a.request.Action != v1alpha1.RequestRestart || a.Observed == nil {
		return false
	}
	s := a.Observed.Current(c.Name)
	return s != nil && s.ID != c.ContainerID
}
