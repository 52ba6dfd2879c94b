// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// budget finds what the roll-out of the workload has left.
func (r *Reconciler) budget(f *facts) {
	byNode := map[string]*fleet.Share{}
	for _, share := range r.fleet.Shares.OfWorkload(f.mw.UID) {
		byNode[share.Node] = share
	}
	placer := placement.New(&f.mw.Spec.Template)
	t := f.mw.Spec.Template.DeepCopy()
	template.SetDefaults(t)
	in := &rollout.Input{Update: template.Hash(t), Now: f.now}
	desired := 0
	for _, node := range r.fleet.Nodes.All() {
		place, share := placer.Place(node), byNode[node.Name]
		if place.ShouldRun {
			desired++
		}
		if place.ShouldRun || share != nil {
			in.Nodes = append(in.Nodes, r.nodeFacts(node.Name, share, place.ShouldRun, f.now))
		}
	}
	in.Strategy = rollout.StrategyOf(&f.mw.Spec, desired)
	f.room, f.unavailable = rollout.Room(in), map[string]bool{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		f.unavailable[n.Name] = !n.Available(&in.Strategy, f.now)
	}
}

// nodeFacts is what a roll-out goes by on a node. One whose shim is away carries out what it
// was asked when the shim is back, so that its kills take up budget here.
func (r *Reconciler) nodeFacts(node string, share *fleet.Share, desired bool, now time.Time) rollout.Node {
	shim := r.fleet.Shims.Of(node, now).Believed(share)
	n := rollout.Node{
		Name: node, Desired: desired, Responds: shim.Responding(),
		NoShim: shim.Reason == v1alpha1.ReasonShimNotFound && (share == nil || !share.Observed()),
	}
	if share != nil {
		n.Present, n.Ending, n.Observed = true, share.Deleting(), share.Observed()
		n.Revision, n.Reported = share.Revision(), share.ObservedGeneration == share.Generation
		n.RunsSpec = share.TemplateHash == share.SpecHash
		n.Ready, n.ReadySince, n.Killing = share.Ready() || share.Phase == corev1.PodSucceeded, share.ReadySince, share.Killing()
		n.Responds = n.Responds || n.Killing
	}
	return n
}
