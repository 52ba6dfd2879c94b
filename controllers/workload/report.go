// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// reconcileStatus computes the whole status from what is known by now, writes it
// when it changed, and announces it only after it was written. When nothing but
// the kills changed it is written at most once in killsInterval, but at once
// during a deletion: then the object need not wait for it at its end, where
// nothing but kills is worth a write.
func (r *Reconciler) reconcileStatus(ctx context.Context, s *scope) error {
	if s.verdict.Reason == "" && s.mw.DeletionTimestamp.IsZero() {
		return nil // nothing was decided
	}
	f := r.survey(s)
	status, next, wait := computeStatus(f, &s.before)
	s.wakeAfter(wait)
	restChanged := !equality.Semantic.DeepEqual(status, s.before) && !s.vanishes()
	kills, since := r.fleet.Kills, r.fleet.Kills.Since()
	pending := kills.Pending(s.mw.UID, s.mw.CreationTimestamp.Time)
	done := ended{
		newest:    fleet.NewlyEnded(s.before.RecentKills, pending.Records, pending.Counted, since),
		counted:   fleet.NewlyEnded(s.before.RecentKills, pending.Further, pending.Counted, since),
		uncounted: pending.Uncounted,
	}
	more, forced := pending.Ended()
	status.RecentKills = fleet.MergeKills(s.before.RecentKills, pending.Records, s.now)
	status.EndedKills += int32(len(done.newest)+len(done.counted)) + more
	status.ForcedKills += fleet.Forced(done.newest) + fleet.Forced(done.counted) + forced
	killsChanged := status.EndedKills != s.before.EndedKills || !equality.Semantic.DeepEqual(status.RecentKills, s.before.RecentKills)
	if killsChanged && !restChanged && s.mw.DeletionTimestamp.IsZero() {
		if due, later := fleet.KillsDue(s.now, kills.LastWrite(s.mw.UID), r.killsInterval); !due {
			s.wakeAfter(later)
			s.memory.progress = next
			r.memories.keep(s.mw, s.memory)
			return nil
		}
	}
	if killsChanged || restChanged {
		if err := r.writeStatus(ctx, s, status); err != nil {
			return err
		}
	}
	kills.Settled(s.mw.UID, pending, s.now)
	s.memory.progress = next
	r.announce(s.mw, &s.before, &status, s, f, done)
	r.memories.keep(s.mw, s.memory)
	return nil
}

// writeStatus updates the whole status: a patch would leave out a count that is
// still 0, and kubectl would show nothing in its column.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, status v1alpha1.ManagedWorkloadStatus) error {
	s.mw.Status = status
	if err := r.client.Status().Update(ctx, s.mw); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	s.memory.wroteSelf.note(s.mw.ResourceVersion, s.now)
	return nil
}

// survey puts the facts about every node together, in the order of the nodes.
func (r *Reconciler) survey(s *scope) *facts {
	f := &facts{
		generation:   s.mw.Generation,
		deleting:     !s.mw.DeletionTimestamp.IsZero(),
		verdict:      s.verdict,
		graceProblem: s.graceProblem,
		grace:        s.grace,
		hash:         s.hash,
		update:       s.hash,
		strategy:     rollout.StrategyOf(&s.mw.Spec, 0),
		deadline:     progressDeadline(&s.mw.Spec),
		answer:       s.answer,
		held:         s.held,
		overQuota:    s.overQuota.String(),
		objects:      s.objects,
		backoff:      s.mw.Spec.RestartBackoff,
		progress:     s.memory.progress,
		now:          s.now,
	}
	if s.editions != nil {
		f.hash, f.current = s.update().hash, s.currentRevision()
	}
	f.rolledOut = s.revision != nil && s.revision.Spec.RolledOut
	if s.rolling != nil {
		f.rolled = s.rolling.tally
	}
	f.waits = s.waits()
	refused := func(node string) string {
		if why := s.memory.refused[node]; why != "" && s.rolling.changes(node) {
			return why
		}
		return ""
	}
	view := func(node string, share *fleet.Share, gone bool) nodeView {
		shim := r.fleet.Shims.Of(node, s.now)
		return nodeView{
			name: node, share: share, shim: shim.Believed(share), conflict: s.conflict(node), nodeGone: gone,
			waits: s.rolling.waits(node), refused: refused(node), replacedAt: s.due(share), awaitsNode: r.awaitsNode(share),
		}
	}
	found := 0
	f.desired = make([]nodeView, 0, len(s.shares))
	for i, p := range s.place() {
		node := s.nodes[i].Name
		share := s.shares[node]
		if share != nil {
			found++
		}
		if p.Drained {
			f.drained = append(f.drained, node)
		}
		if share != nil || p.ShouldRun {
			f.add(p, view(node, share, false))
		}
	}
	if found < len(s.shares) || len(s.surplus) > 0 {
		f.leaving = append(f.leaving, s.unplaced(view)...)
	}
	sortNodes(f.leaving)
	slices.Sort(f.drained)
	return f
}

// add puts a node where its placement belongs.
func (f *facts) add(p placement.Placement, v nodeView) {
	if p.ShouldRun {
		f.desired = append(f.desired, v)
	}
	if v.share == nil {
		return
	}
	if f.deleting || !p.ShouldContinue {
		f.leaving = append(f.leaving, v)
	}
	if p.ShouldRun || f.deleting {
		return
	}
	f.misscheduled = append(f.misscheduled, v.name)
	if p.ShouldContinue {
		f.tolerated = append(f.tolerated, v)
	}
}

// unplaced are the NodeWorkloads without a Node, and the surplus ones.
func (s *scope) unplaced(view func(node string, share *fleet.Share, gone bool) nodeView) []nodeView {
	known := make(map[string]bool, len(s.nodes))
	for _, node := range s.nodes {
		known[node.Name] = true
	}
	var list []nodeView
	for node, share := range s.shares {
		if !known[node] {
			list = append(list, view(node, share, true))
		}
	}
	for _, share := range s.surplus {
		list = append(list, view(share.Node, share, !known[share.Node]))
	}
	return list
}

// progressDeadline is how long a roll-out may be without progress.
func progressDeadline(spec *v1alpha1.ManagedWorkloadSpec) time.Duration {
	if spec.ProgressDeadlineSeconds == nil {
		return rollout.DefaultProgressDeadline
	}
	return time.Duration(*spec.ProgressDeadlineSeconds) * time.Second
}
