// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/managedworkload/managedworkload/api/v1alpha1"

// RecallRequests is what KillRequests ask as far as it was noted, for as long as nothing may be
// done or nothing was observed: what is kept stopped stays so, and a pod that is not ready for the
// sake of a request is not ready. Nothing else is asked, and nothing is decided: a process that
// comes after another one must not take what it does not know yet for the end of a request.
func RecallRequests(requests []v1alpha1.NodeRequest, noted []v1alpha1.NodeRequestStatus) RequestProgress {
	out := RequestProgress{}
	for i := range requests {
		a := advance{RequestInput: RequestInput{Before: noted}, out: &out, request: &requests[i]}
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
		case c.Phase == v1alpha1.RequestInProgress && a.request.UnreadySeconds > 0:
			a.unready()
		}
	}
}
