// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// budget finds what the roll-out of the workload has left, by the facts that the roll-out uses: nothing
// before it was looked at.
func (r *Reconciler) budget(f *facts) {
	goesBy := r.fleet.Shares.RollOut(f.mw.UID)
	if goesBy == nil {
		return
	}
	byNode := map[string]*fleet.Share{}
	for _, share := range r.fleet.Shares.OfWorkload(f.mw.UID) {
		byNode[share.Node] = share
	}
	in := &rollout.Input{Update: goesBy.Templates.Update, Now: f.now}
	desired := 0
	for _, node := range r.fleet.Nodes.All() {
		share := byNode[node.Name]
		place := goesBy.Place(node, share)
		if place.ShouldRun {
			desired++
		}
		if n, counts := goesBy.Facts(node.Name, place, share, r.fleet.Shims, f.now); counts {
			// A node whose shim is away carries out what it was asked when the shim is back.
			n.Responds = n.Responds || n.Killing
			in.Nodes = append(in.Nodes, n)
		}
	}
	in.Strategy = rollout.StrategyOf(&f.mw.Spec, desired)
	f.room, f.unavailable = rollout.Room(in), map[string]bool{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		f.unavailable[n.Name] = !n.Available(&in.Strategy, f.now)
	}
}
