// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// overlap is how far before its own start the manager reports kills, since its
// predecessor may have ended before it reported them.
const overlap = time.Minute

// reconcileStatus computes the whole status from what is known by now, writes it
// when it changed, and announces it only after it was written. When nothing but
// the kills changed it is written at most once in killsInterval, but at once
// during a deletion: then the object need not wait for it at its end, where
// nothing but kills is worth a write.
func (r *Reconciler) reconcileStatus(ctx context.Context, s *scope) error {
	if s.verdict.Reason == "" && s.mw.DeletionTimestamp.IsZero() {
		return nil // nothing was decided
	}
	f, err := r.survey(ctx, s)
	if err != nil {
		return err
	}
	status, next, wait := computeStatus(f, &s.before)
	s.wakeAfter(wait)
	restChanged := !equality.Semantic.DeepEqual(status, s.before) && !s.vanishes()
	pending := r.kills.Pending(s.mw.UID)
	status.RecentKills = fleet.MergeKills(s.before.RecentKills, pending, s.now)
	status.ForcedKills += fleet.NewlyForced(s.before.RecentKills, pending, r.startedAt)
	killsChanged := status.ForcedKills != s.before.ForcedKills || !equality.Semantic.DeepEqual(status.RecentKills, s.before.RecentKills)
	if killsChanged && !restChanged && s.mw.DeletionTimestamp.IsZero() {
		if due, later := fleet.KillsDue(s.now, r.kills.LastWrite(s.mw.UID), r.killsInterval); !due {
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
	done := fleet.NewlyDone(s.before.RecentKills, pending, r.startedAt.Add(-overlap))
	r.kills.Settled(s.mw.UID, pending, s.now)
	r.announce(s.mw, &s.before, &status, s, f, done)
	s.memory.progress = next
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
	return nil
}

// survey puts the facts about every node together.
func (r *Reconciler) survey(ctx context.Context, s *scope) (*facts, error) {
	f := &facts{
		generation:   s.mw.Generation,
		deleting:     !s.mw.DeletionTimestamp.IsZero(),
		verdict:      s.verdict,
		graceProblem: s.graceProblem,
		grace:        s.grace,
		hash:         s.wanted.hash,
		answer:       s.answer,
		held:         s.held,
		backoff:      s.mw.Spec.RestartBackoff,
		progress:     s.memory.progress,
		now:          s.now,
	}
	var errs []error
	view := func(node string, nodeWorkload *v1alpha1.NodeWorkload, gone bool) nodeView {
		shim, err := r.shims.State(ctx, r.client, node, s.now)
		if err != nil {
			errs = append(errs, err)
		}
		return nodeView{name: node, nodeWorkload: nodeWorkload, shim: shim.Believed(nodeWorkload), conflict: s.conflict(node), nodeGone: gone}
	}
	known := make(map[string]bool, len(s.nodes))
	for i := range s.nodes {
		node := &s.nodes[i]
		known[node.Name] = true
		nodeWorkload := s.nodeWorkloads[node.Name]
		p := s.placer.Place(node)
		if p.ShouldRun {
			f.desired = append(f.desired, view(node.Name, nodeWorkload, false))
		}
		if nodeWorkload != nil && (f.deleting || !p.ShouldContinue) {
			f.leaving = append(f.leaving, view(node.Name, nodeWorkload, false))
		}
	}
	for _, nw := range s.all() {
		if node := nw.Spec.NodeName; !known[node] || s.nodeWorkloads[node] != nw {
			f.leaving = append(f.leaving, view(node, nw, !known[node]))
		}
	}
	sortNodes(f.desired)
	sortNodes(f.leaving)
	return f, errors.Join(errs...)
}
