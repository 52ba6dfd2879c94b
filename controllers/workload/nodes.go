// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// Who asked for the end of a NodeWorkload, as its kill records name it.
const (
	byWorkloadDeleted = "manager (ManagedWorkload deleted)"
	byNoMatch         = "manager (node no longer matches)"
	byReplacement     = "manager (replaced: it had ended and its template changed)"
	bySurplus         = "manager (second NodeWorkload of its node)"
)

// step is what one node needs.
type step int

const (
	stepNone step = iota
	stepCreate
	stepUpdate
	stepEnd
	stepReplace
)

// decide says what a node needs. share is nil when it has no NodeWorkload.
func decide(p placement.Placement, share *fleet.Share, w *wanted) step {
	switch {
	case share == nil && p.ShouldRun:
		return stepCreate
	case share == nil:
		return stepNone
	case !p.ShouldContinue:
		return stepEnd
	case share.Deleting():
		return stepNone
	case terminal(share) && (share.TemplateHash != w.hash || share.SpecHash != w.hash):
		return stepReplace // it could never run again
	case w.drifted(share):
		return stepUpdate
	}
	return stepNone
}

// terminal reports whether a NodeWorkload has ended for good.
func terminal(share *fleet.Share) bool {
	return share.Phase == corev1.PodSucceeded || share.Phase == corev1.PodFailed
}

// nodeStep is what a node needs, with its NodeWorkload, nil if it has none.
type nodeStep struct {
	step

	node  string
	share *fleet.Share
}

// steps are what the nodes need. A NodeWorkload whose Node is gone is left alone: the
// Node may come back and find its containers.
func (s *scope) steps() []nodeStep {
	var steps []nodeStep
	for i, p := range s.place() {
		node := s.nodes[i].Name
		if s.inTheWay[node] != nil {
			continue
		}
		share := s.shares[node]
		if next := decide(p, share, s.wanted); next != stepNone {
			steps = append(steps, nodeStep{next, node, share})
		}
	}
	return steps
}

// spreads reports whether a step gives a node a template that it does not have.
func (s *scope) spreads(next nodeStep) bool {
	switch next.step {
	case stepCreate, stepReplace:
		return true
	case stepUpdate:
		return next.share.Revision() != s.hash && definition(s.wanted.drift(next.share))
	case stepNone, stepEnd:
	}
	return false
}

// reconcileNodes gives every node what it needs. What fails on one node does not
// keep the others waiting, and nothing waits for an answer of admission but what spreads
// the template.
func (r *Reconciler) reconcileNodes(ctx context.Context, s *scope) error {
	var spreading []nodeStep
	var errs failures
	for _, next := range s.steps() {
		if s.spreads(next) {
			spreading = append(spreading, next)
			continue
		}
		errs.add(r.carryOut(ctx, s, next))
	}
	for _, share := range s.surplus {
		errs.add(r.end(ctx, s, share, nil, bySurplus))
	}
	may, err := r.maySpread(ctx, s, len(spreading) > 0)
	errs.add(err)
	if may {
		errs.add(r.spread(ctx, s, spreading))
	} else {
		s.held = len(spreading)
	}
	if err := errs.err(); err != nil {
		return err
	}
	if s.held == 0 && s.left == 0 {
		s.memory.applied = s.wanted
	}
	return nil
}

// spread gives nodes the template that they do not have.
func (r *Reconciler) spread(ctx context.Context, s *scope, steps []nodeStep) error {
	var errs failures
	var without []string
	for _, next := range steps {
		if next.step == stepCreate {
			without = append(without, next.node)
			continue
		}
		errs.add(r.carryOut(ctx, s, next))
	}
	errs.add(r.createAll(ctx, s, without))
	return errs.err()
}

// carryOut does what a node with a NodeWorkload needs.
func (r *Reconciler) carryOut(ctx context.Context, s *scope, next nodeStep) error {
	switch next.step {
	case stepNone, stepCreate:
	case stepUpdate:
		return r.update(ctx, s, next.share)
	case stepEnd:
		return r.end(ctx, s, next.share, nil, byNoMatch)
	case stepReplace:
		return r.end(ctx, s, next.share, nil, byReplacement)
	}
	return nil
}
