// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// target is a node that a request is about.
type target struct {
	node string
	// share is nil where the node does not run the workload.
	share *fleet.Share
	// responds: the node's shim does. unavailable: the node takes up budget of a roll-out.
	responds, unavailable bool

	phase   v1alpha1.RequestPhase
	message string
	// entered: the node has the request.
	entered    bool
	containers []v1alpha1.RequestContainerState
}

func (t *target) fail(format string, args ...any) {
	t.phase, t.message = v1alpha1.RequestFailed, fmt.Sprintf(format, args...)
}

func (t *target) open() bool {
	return t.phase == v1alpha1.RequestPending || t.phase == v1alpha1.RequestInProgress
}

// facts are what is decided from.
type facts struct {
	kr *v1alpha1.KillRequest
	// exists: there is such a workload.
	exists bool
	// shares are those of the workload, and nodes the labels of all nodes.
	shares []*fleet.Share
	nodes  map[string]map[string]string
	// responds and unavailable say so of nodes, and room how many more nodes may become
	// unavailable.
	responds, unavailable map[string]bool
	room                  int
	now                   time.Time
}

// deadline is until when the request may begin kills, nil without one.
func deadline(kr *v1alpha1.KillRequest) *metav1.Time {
	if kr.Spec.ActiveDeadlineSeconds == nil {
		return nil
	}
	return new(metav1.NewTime(kr.CreationTimestamp.Add(time.Duration(*kr.Spec.ActiveDeadlineSeconds) * time.Second)))
}

// targets are the nodes that the request is about, by name, as far as they are.
func (f *facts) targets() ([]target, error) {
	chosen, err := f.chosen()
	if err != nil {
		return nil, err
	}
	late := deadline(f.kr)
	for i := range chosen {
		t := &chosen[i]
		t.responds, t.unavailable = f.responds[t.node], f.unavailable[t.node]
		f.look(t)
		if late != nil && !late.After(f.now) && t.open() {
			t.fail("not done before the deadline")
		}
	}
	slices.SortFunc(chosen, func(a, b target) int { return cmp.Compare(a.node, b.node) })
	return chosen, nil
}

// chosen are the nodes that the request names, and those of its labels, or all, that run the
// workload.
func (f *facts) chosen() ([]target, error) {
	selector := labels.Nothing()
	if f.kr.Spec.Nodes.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(f.kr.Spec.Nodes.Selector); err != nil {
			return nil, fmt.Errorf("spec.nodes.selector: %w", err)
		}
	}
	if f.kr.Spec.Nodes.All {
		selector = labels.Everything()
	}
	var chosen []target
	runs := map[string]bool{}
	for _, share := range f.shares {
		named := slices.Contains(f.kr.Spec.Nodes.Names, share.Node)
		runs[share.Node] = true
		if named || selector.Matches(labels.Set(f.nodes[share.Node])) && f.meant(share) {
			chosen = append(chosen, target{node: share.Node, share: share})
		}
	}
	for _, name := range f.kr.Spec.Nodes.Names {
		if !runs[name] {
			chosen = append(chosen, target{node: name})
		}
	}
	return chosen, nil
}

// meant is whether a NodeWorkload is one that a request for all is about: it was there before.
// What is to stay stopped does so wherever it comes.
func (f *facts) meant(share *fleet.Share) bool {
	asked, _ := share.Request(string(f.kr.UID))
	return asked != nil || !share.Deleting() && (f.kr.Spec.Action == v1alpha1.RequestStop || !f.newer(share))
}

func (f *facts) newer(share *fleet.Share) bool {
	return share.Created.After(f.kr.CreationTimestamp.Time)
}

// look says how far the request is on a node.
func (f *facts) look(t *target) {
	t.phase = v1alpha1.RequestPending
	switch {
	case t.share == nil && f.holds():
		t.phase, t.message = v1alpha1.RequestHeld, "the ManagedWorkload does not run on this node; what comes is stopped"
		return
	case t.share == nil:
		t.fail("ManagedWorkload %s does not run on this node", f.kr.Spec.WorkloadName)
		return
	}
	asked, reported := t.share.Request(string(f.kr.UID))
	t.entered = asked != nil
	if reported != nil {
		t.phase, t.message, t.containers = reported.Phase, reported.Message, reported.Containers
	}
	if t.open() {
		f.lookAtOpen(t)
	}
}

// lookAtOpen says what becomes of a request that is not over on a node.
func (f *facts) lookAtOpen(t *target) {
	switch ended := t.share.Phase == corev1.PodSucceeded || t.share.Phase == corev1.PodFailed; {
	case (ended || t.share.Deleting()) && f.holds():
		t.phase, t.message = v1alpha1.RequestHeld, "the NodeWorkload ends; what comes after it is stopped"
	case t.share.Deleting():
		t.fail("the NodeWorkload is being deleted")
	case ended:
		t.fail("the NodeWorkload has ended (%s)", t.share.Phase)
	case !t.entered && f.kr.Spec.Action != v1alpha1.RequestStop && f.newer(t.share):
		t.fail("the NodeWorkload is younger than the request")
	case !t.entered && f.otherRevision(t.share):
		t.fail("precondition: the node runs revision %s", t.share.Revision())
	case !t.responds && t.message == "":
		t.message = "the node's shim does not respond"
	}
}

// holds is whether the request keeps containers stopped.
func (f *facts) holds() bool {
	return f.exists && f.kr.Spec.Action == v1alpha1.RequestStop && !f.kr.Spec.DryRun
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
