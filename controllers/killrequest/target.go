// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// target is a node that a request is about.
type target struct {
	node string
	// share is nil where the node does not run the workload.
	share *fleet.Share
	// responds: the node's shim does.
	responds bool
	// given is the NodeWorkload that has the request, or had it, or is to get it now.
	given types.UID

	phase   v1alpha1.RequestPhase
	message string
	// entered: the node has the request. taken: its shim reports about it.
	entered, taken bool
	// silent: the shim could have reported about it, and did not. remembered: only the status
	// of the request knows what came of it on this node.
	silent, remembered bool
	containers         []v1alpha1.RequestContainerState
}

// fail ends the request on the node, and for those of its containers for which it is not over:
// once it is over, no report of the shim changes what is said of them.
func (t *target) fail(format string, args ...any) {
	t.phase, t.message = v1alpha1.RequestFailed, fmt.Sprintf(format, args...)
	t.containers = slices.Clone(t.containers) // they are those of the cache
	for i := range t.containers {
		if c := &t.containers[i]; c.Phase != v1alpha1.RequestSucceeded && c.Phase != v1alpha1.RequestFailed {
			c.Phase, c.Message = t.phase, t.message
		}
	}
}

func (t *target) open() bool {
	return t.phase == v1alpha1.RequestPending || t.phase == v1alpha1.RequestInProgress
}

// untaken is whether the request has failed before the node's shim took it.
func (t *target) untaken() bool {
	return t.entered && !t.taken && t.phase == v1alpha1.RequestFailed
}

// facts are what is decided from.
type facts struct {
	kr *v1alpha1.KillRequest
	// mw is the workload, nil if there is none.
	mw *v1alpha1.ManagedWorkload
	// turn is the look at its nodes. took: it is a turn now. missed: another writer has it.
	turn         fleet.Turn
	took, missed bool
	// shares are those of the workload that the request may be about.
	shares []*fleet.Share
	// given is what the status says of nodes whose NodeWorkload got the request, or was about
	// to get it.
	given map[string]*v1alpha1.RequestNodeState
	// labels are those of a node, and responds says whether a share's shim does.
	labels   func(node string) map[string]string
	responds func(*fleet.Share) bool
	// silentSince is since when shims say nothing about the request.
	silentSince map[string]time.Time
	// unavailable says so of nodes, and room how many more nodes may become unavailable.
	unavailable map[string]bool
	room        int
	now         time.Time
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
		t.responds = t.share != nil && f.responds(t.share)
		f.look(t)
		if late != nil && !late.After(f.now) && t.open() {
			t.fail("not done before the deadline")
		}
		t.silent = t.silent && t.open()
	}
	slices.SortFunc(chosen, func(a, b target) int { return cmp.Compare(a.node, b.node) })
	return chosen, nil
}

// chosen are the nodes that the request names, those of its labels, or all, that run the
// workload, and those that got it, also after their labels have changed.
func (f *facts) chosen() ([]target, error) {
	means, err := f.means()
	if err != nil {
		return nil, err
	}
	byNode := map[string]*fleet.Share{}
	for _, share := range f.shares {
		if means(share) && (byNode[share.Node] == nil || f.before(share, byNode[share.Node])) {
			byNode[share.Node] = share
		}
	}
	without := slices.Clone(f.kr.Spec.Nodes.Names) // some may not run the workload
	if !f.holds() {
		without = slices.AppendSeq(without, maps.Keys(f.given)) // and there it may be gone
	}
	for _, node := range without {
		if _, there := byNode[node]; !there {
			byNode[node] = nil
		}
	}
	chosen := make([]target, 0, len(byNode))
	for node, share := range byNode {
		chosen = append(chosen, target{node: node, share: share})
	}
	return chosen, nil
}

// means says which NodeWorkloads the request is about.
func (f *facts) means() (func(*fleet.Share) bool, error) {
	nodes := &f.kr.Spec.Nodes
	selector := labels.Nothing()
	if nodes.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(nodes.Selector); err != nil {
			return nil, fmt.Errorf("spec.nodes.selector: %w", err)
		}
	}
	if nodes.All {
		selector = labels.Everything()
	}
	named := make(map[string]bool, len(nodes.Names))
	for _, name := range nodes.Names {
		named[name] = true
	}
	return func(share *fleet.Share) bool {
		return named[share.Node] || f.got(share) || f.meant(share) && selector.Matches(labels.Set(f.labels(share.Node)))
	}, nil
}

// got is whether a NodeWorkload has the request, or is the one that was to get it.
func (f *facts) got(share *fleet.Share) bool {
	asked, _ := share.Request(string(f.kr.UID))
	return asked != nil || f.given[share.Node] != nil && f.given[share.Node].NodeWorkloadUID == share.UID
}

// before orders two NodeWorkloads on a node: the request is about the one that has it, or
// else about the one that stays.
func (f *facts) before(a, b *fleet.Share) bool {
	switch {
	case f.got(a) != f.got(b):
		return f.got(a)
	case a.Deleting() != b.Deleting():
		return b.Deleting()
	}
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) < 0
}

// meant is whether a NodeWorkload is one that a request for all is about: it was there before.
// What is to stay stopped does so wherever it comes.
func (f *facts) meant(share *fleet.Share) bool {
	return !share.Deleting() && (f.kr.Spec.Action == v1alpha1.RequestStop || !f.newer(share))
}

func (f *facts) newer(share *fleet.Share) bool {
	return share.Created.After(f.kr.CreationTimestamp.Time)
}

// holds is whether the request keeps containers stopped.
func (f *facts) holds() bool {
	return f.mw != nil && f.kr.Spec.Action == v1alpha1.RequestStop && !f.kr.Spec.DryRun
}
