// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// Who asked for the end of a NodeWorkload, as its kill records name it.
const (
	byWorkloadDeleted = "manager (ManagedWorkload deleted)"
	byNoMatch         = "manager (node no longer matches)"
	byReplacement     = "manager (replaced: it had ended and its template changed)"
	byEviction        = "manager (replaced: it was evicted)"
	byShutdown        = "manager (replaced: its node had shut down)"
	bySurplus         = "manager (second NodeWorkload of its node)"
)

// terminal reports whether a NodeWorkload has ended for good.
func terminal(share *fleet.Share) bool {
	return share.Phase == corev1.PodSucceeded || share.Phase == corev1.PodFailed
}

// endedOutdated reports whether a NodeWorkload ended for good before its shim took over what
// it should run: it could never run that.
func endedOutdated(share *fleet.Share) bool {
	return terminal(share) && !share.Deleting() && share.TemplateHash != share.SpecHash
}

// endUnplaced ends what should not run any more: as many as a batch changes, and none once
// the object has changed. A placement that is taken back ends no more.
func (r *Reconciler) endUnplaced(ctx context.Context, s *scope) error {
	var errs failures
	ended := 0
	for i, p := range s.place() {
		share := s.shares[s.nodes[i].Name]
		if share == nil {
			continue
		}
		by := s.whyEnd(share, p.ShouldContinue)
		if by == "" || by == byShutdown && r.awaitsNode(share) {
			continue
		}
		if !share.Deleting() {
			if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
				errs.add(err)
				break
			}
			if ended == rollout.MaxBatch || r.superseded(ctx, s) {
				s.more = true
				break
			}
			ended++
		}
		err := r.end(ctx, s, share, nil, by)
		if err == nil {
			r.noteReplaced(s, share, by)
		}
		errs.add(err)
	}
	return errs.err()
}

// whyEnd is why a NodeWorkload is ended, "" if it is not. One that its node has ended is made again
// after its back-off.
func (s *scope) whyEnd(share *fleet.Share, placed bool) string {
	switch {
	case !placed:
		return byNoMatch
	case share.Deleting():
		return ""
	case share.Evicted && s.holdEvicted(share):
		return ""
	case share.ShutDown:
		return byShutdown
	case share.Evicted:
		return byEviction
	case endedOutdated(share):
		return byReplacement
	}
	return ""
}

// reconcileNodes ends what should not run any more, rolls the template out, and puts right
// what restarts nothing. What fails on one node does not keep the others waiting. A
// NodeWorkload whose Node is gone is left alone: the Node may come back and find its
// containers.
func (r *Reconciler) reconcileNodes(ctx context.Context, s *scope) error {
	var errs failures
	errs.add(r.endUnplaced(ctx, s))
	for _, share := range s.surplus {
		errs.add(r.end(ctx, s, share, nil, bySurplus))
	}
	errs.add(r.rollOut(ctx, s))
	errs.add(r.repair(ctx, s))
	if err := errs.err(); err != nil {
		return err
	}
	if s.left == 0 {
		s.memory.applied = s.wanted
	}
	return nil
}
