// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// RollOut holds the facts about the roll-out of a workload that only its own controller knows,
// beside those about its nodes. It does not change after NoteRollOut.
type RollOut struct {
	Templates rollout.Templates
	// Placer places the workload as admission left it; nil where that is not known, and it stays
	// where it is.
	Placer *placement.Placer
	// Stays are nodes on which it may stay although the placement says otherwise, and Blocked
	// those where another object has the name of its NodeWorkload.
	Stays, Blocked map[string]bool
	// NoRoom are nodes for whose NodeWorkload a quota had no room.
	NoRoom map[string]bool
}

// rollOuts are those of all workloads, by their UID.
type rollOuts struct {
	mu sync.Mutex
	of map[types.UID]*RollOut
}

// NoteRollOut stores the facts about the roll-out of a workload, nil for one that is gone.
func (x *Index) NoteRollOut(workload types.UID, r *RollOut) {
	x.rollOuts.mu.Lock()
	defer x.rollOuts.mu.Unlock()
	if r == nil {
		delete(x.rollOuts.of, workload)
		return
	}
	if x.rollOuts.of == nil {
		x.rollOuts.of = map[types.UID]*RollOut{}
	}
	x.rollOuts.of[workload] = r
}

// RollOut returns the facts about the roll-out of a workload, nil before it was looked at.
func (x *Index) RollOut(workload types.UID) *RollOut {
	x.rollOuts.mu.Lock()
	defer x.rollOuts.mu.Unlock()
	return x.rollOuts.of[workload]
}

// Place decides about a node with that share, nil for none.
func (r *RollOut) Place(node *corev1.Node, share *Share) placement.Placement {
	if r.Placer == nil {
		return placement.Placement{ShouldRun: share != nil, ShouldContinue: share != nil}
	}
	p := r.Placer.Place(node)
	p.ShouldContinue = p.ShouldContinue || r.Stays[node.Name]
	return p
}

// Facts returns the facts that a roll-out uses on a node with that share, nil for none; false where it is no
// matter of the roll-out.
func (r *RollOut) Facts(node string, place placement.Placement, share *Share, shims *Shims, now time.Time) (rollout.Node, bool) {
	if !place.ShouldRun && (share == nil || !place.ShouldContinue) {
		return rollout.Node{}, false
	}
	shim := shims.Of(node, now).Believed(share)
	return rollout.NodeOf(rollout.Place{
		Name: node, Desired: place.ShouldRun, Blocked: r.Blocked[node], NoRoom: r.NoRoom[node], Selected: true,
		Responds: shim.Responding(), NoShim: shim.Reason == v1alpha1.ReasonShimNotFound,
	}, share.rollOut(), &r.Templates), true
}

// rollOut returns the facts of a share that a roll-out uses, nil without one.
func (s *Share) rollOut() *rollout.Share {
	if s == nil {
		return nil
	}
	return &rollout.Share{
		Ending: s.Deleting(), Label: s.Revision(), SpecHash: s.SpecHash, Observed: s.Observed(), Reported: s.ObservedGeneration == s.Generation,
		TemplateHash: s.TemplateHash, Succeeded: s.Phase == corev1.PodSucceeded, Ready: s.Ready(), ReadySince: s.ReadySince, Killing: s.Killing(),
	}
}
