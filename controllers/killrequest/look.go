// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// look says how far the request is on a node.
func (f *facts) look(t *target) {
	t.phase = v1alpha1.RequestPending
	var asked *v1alpha1.NodeRequest
	var reported *v1alpha1.NodeRequestStatus
	if t.share != nil {
		asked, reported = t.share.Request(string(f.kr.UID))
	}
	t.entered, t.taken = asked != nil, reported != nil
	if t.entered {
		t.given = t.share.UID
	}
	switch {
	case f.remember(t):
		return
	case t.share == nil && f.holds():
		t.phase, t.message = v1alpha1.RequestHeld, "the ManagedWorkload does not run on this node; what comes is stopped"
		return
	case t.share == nil:
		t.fail("ManagedWorkload %s does not run on this node", f.kr.Spec.WorkloadName)
		return
	}
	if t.taken {
		t.phase, t.message, t.containers = reported.Phase, reported.Message, reported.Containers
	}
	if t.open() {
		f.lookAtOpen(t, asked)
	}
}

// remember says what came of the request where the NodeWorkload that got it does not say so
// any more. What is over stays so, and what was begun is not begun again.
func (f *facts) remember(t *target) bool {
	known := f.given[t.node]
	if known == nil || t.taken {
		return false
	}
	same := t.share != nil && t.share.UID == known.NodeWorkloadUID
	switch over := known.Phase == v1alpha1.RequestSucceeded || known.Phase == v1alpha1.RequestFailed; {
	case t.entered && !(same && over):
		return false
	case !same && f.holds():
		return false // what comes is stopped, too
	case over:
		t.phase, t.message, t.containers = known.Phase, known.Message, known.Containers
	case !same:
		t.fail("the NodeWorkload was deleted before the request was done")
	default:
		t.given = known.NodeWorkloadUID // it is to get it, or has it already
		return false
	}
	t.given, t.remembered = known.NodeWorkloadUID, true
	return true
}

// lookAtOpen says what becomes of a request that is not over on a node.
func (f *facts) lookAtOpen(t *target, asked *v1alpha1.NodeRequest) {
	switch ended := t.share.Phase == corev1.PodSucceeded || t.share.Phase == corev1.PodFailed; {
	case (ended || t.share.Deleting()) && f.holds():
		t.phase, t.message = v1alpha1.RequestHeld, "the NodeWorkload ends; what comes after it is stopped"
	case t.share.Deleting():
		t.fail("the NodeWorkload is being deleted")
	case ended:
		t.fail("the NodeWorkload has ended (%s)", t.share.Phase)
	case t.entered:
		f.lookAtEntered(t, asked)
	default:
		f.lookAtWaiting(t)
	}
	if !t.responds && t.open() && t.message == "" {
		t.message = "the node's shim does not respond"
	}
}

// lookAtWaiting says what becomes of a request that the node does not have.
func (f *facts) lookAtWaiting(t *target) {
	switch {
	case t.taken && !f.holds():
		t.fail("the request was taken from the NodeWorkload before it was done")
	case f.kr.Spec.Action != v1alpha1.RequestStop && f.newer(t.share):
		t.fail("the NodeWorkload is younger than the request")
	case f.otherRevision(t.share):
		t.fail("precondition: the node runs revision %s", t.share.Revision())
	}
}

// lookAtEntered says what becomes of a request that the node has. A shim that responds and says
// nothing about it for long: the request fails there. A stop waits even so: it must not end while it may yet hold.
func (f *facts) lookAtEntered(t *target, asked *v1alpha1.NodeRequest) {
	reports := t.responds && t.share.ObservedGeneration == t.share.Generation && t.share.Waiting == (fleet.Waiting{})
	if t.taken || !reports || asked.TemplateHash != "" && !t.share.Current() {
		return // or has not come to it
	}
	t.silent = true
	if f.now.Sub(f.silentFrom(t.node)) < patience {
		return
	}
	message := fmt.Sprintf("the node's shim responds, but did not take the request within %.0f s", patience.Seconds())
	if f.holds() {
		t.message = message
		return
	}
	t.fail("%s", message)
}

// otherRevision is whether the node has another revision than the precondition says.
func (f *facts) otherRevision(share *fleet.Share) bool {
	p := f.kr.Spec.Precondition
	return p != nil && p.Revision != "" && share.Revision() != p.Revision
}

// unsettled is whether a precondition on the revision waits: the node has not reported that it
// runs what it has.
func (f *facts) unsettled(share *fleet.Share) bool {
	p := f.kr.Spec.Precondition
	return p != nil && p.Revision != "" && !share.Current()
}
