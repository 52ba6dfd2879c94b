// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// rolling is a roll-out as one reconciliation sees it: what its batch was decided from.
type rolling struct {
	in    rollout.Input
	batch rollout.Batch
	tally rollout.Tally
	// at is the position of a node by its name.
	at map[string]int
}

// waits is why a node does not get the update revision now, "" if it has or gets it.
func (g *rolling) waits(node string) rollout.Reason {
	if g == nil {
		return ""
	}
	if i, ok := g.at[node]; ok {
		return g.batch.Waiting[i]
	}
	return ""
}

// changes reports whether this look was to change a node.
func (g *rolling) changes(node string) bool {
	if g == nil {
		return false
	}
	i, ok := g.at[node]
	return ok && slices.ContainsFunc(g.batch.Changes, func(c rollout.Change) bool { return c.Node == i })
}

// waiting is how many nodes wait, by why.
func (g *rolling) waiting() map[rollout.Reason]int {
	counts := map[rollout.Reason]int{}
	for _, reason := range g.batch.Waiting {
		if reason != "" {
			counts[reason]++
		}
	}
	return counts
}

// planRollOut gathers what is known of the nodes, and decides the next batch.
func (r *Reconciler) planRollOut(s *scope) *rolling {
	desired := 0
	for _, p := range s.place() {
		if p.ShouldRun {
			desired++
		}
	}
	g := &rolling{at: make(map[string]int, len(s.nodes)), in: rollout.Input{
		Update: s.hash, Current: s.currentRevision(), Strategy: rollout.StrategyOf(&s.mw.Spec, desired), Now: s.now,
	}}
	selector := labels.SelectorFromSet(rollout.NodeSelector(&s.mw.Spec))
	g.in.Nodes = make([]rollout.Node, 0, desired)
	goesBy := s.goesBy()
	r.fleet.Shares.NoteRollOut(s.mw.UID, goesBy)
	for i, p := range s.place() {
		node := s.nodes[i]
		n, counts := goesBy.Facts(node.Name, p, s.shares[node.Name], r.fleet.Shims, s.now)
		if !counts {
			continue
		}
		n.Selected, n.Refused = selector.Matches(labels.Set(node.Labels)), s.memory.refused[node.Name] != "" || n.NoRoom
		g.at[node.Name] = len(g.in.Nodes)
		g.in.Nodes = append(g.in.Nodes, n)
	}
	maps.DeleteFunc(s.memory.refused, func(node, _ string) bool {
		i, there := g.at[node]
		return !there || g.in.Nodes[i].Has(s.hash) // it succeeded although its answer was lost
	})
	maps.DeleteFunc(s.memory.noRoom, func(node string, _ bool) bool {
		i, there := g.at[node]
		return !there || g.in.Nodes[i].Present
	})
	g.batch = rollout.Next(&g.in)
	g.tally = rollout.Count(&g.in, &g.batch)
	s.wakeAfter(g.batch.Wake)
	return g
}

// goesBy returns the facts that the roll-out uses beside its nodes, for KillRequests within its budget too.
func (s *scope) goesBy() *fleet.RollOut {
	g := &fleet.RollOut{Templates: *s.templates(), Placer: new(s.placer), Stays: s.stays, NoRoom: maps.Clone(s.memory.noRoom)}
	if len(s.inTheWay) > 0 {
		g.Blocked = make(map[string]bool, len(s.inTheWay))
		for node := range s.inTheWay {
			g.Blocked[node] = true
		}
	}
	return g
}

// change is one of a batch.
type change struct {
	node  string
	share *fleet.Share
	to    *edition
}

// present reports whether the node has a NodeWorkload: what is new takes up no budget.
func (c change) present() bool { return c.share != nil }

// spreads reports whether a node gets a template that it does not have and does not run.
func (c *change) spreads() bool {
	return c.share == nil || c.share.Revision() != c.to.revision && c.share.TemplateHash != c.to.hash
}

// rollOut carries the next batch out. Nothing waits for an answer of admission but what
// spreads a template.
func (r *Reconciler) rollOut(ctx context.Context, s *scope) error {
	s.rolling = r.planRollOut(s)
	if s.frozen {
		return nil
	}
	var errs failures
	changes, leave := r.takeTurn(s, s.changes())
	defer leave()
	may, err := r.mayAllSpread(ctx, s, changes)
	errs.add(err)
	settled := len(changes) == 0
	changes, err = r.fit(ctx, s, changes, may)
	errs.add(err)
	defer s.room.Close()
	without, err := r.changeAll(ctx, s, changes, may)
	errs.add(err)
	errs.add(r.createAll(ctx, s, without))
	if settled && s.rolling.tally.Complete {
		errs.add(r.markRolledOut(ctx, s))
	}
	return errs.err()
}

// takeTurn leaves out changes that take up budget while a KillRequest does, or where one did
// since the nodes were looked at. leave ends the turn.
func (r *Reconciler) takeTurn(s *scope, changes []change) (now []change, leave func()) {
	if !slices.ContainsFunc(changes, change.present) {
		return changes, func() {}
	}
	if r.fleet.Shares.Take(s.turn) {
		return changes, func() { r.fleet.Shares.Leave(s.turn, s.memory.wrote.version, time.Now()) }
	}
	s.wakeAfter(seenRetry)
	return slices.DeleteFunc(changes, change.present), func() {}
}

// changeAll changes the nodes that have a NodeWorkload, and returns the others.
func (r *Reconciler) changeAll(ctx context.Context, s *scope, changes []change, may map[string]bool) (without []change, err error) {
	var errs failures
	for _, c := range changes {
		switch {
		case c.spreads() && !may[c.to.revision]:
			s.held++
			s.note(c.node, nil) // nothing is tried
		case c.share == nil:
			without = append(without, c)
		case errs.serious() >= maxFailures:
		case r.superseded(ctx, s):
			return nil, errs.err() // its change has woken this workload
		default:
			err := r.carryOut(ctx, s, &c)
			s.room.Wrote(c.share.Key(), s.shares[c.node].ResourceVersion, err, time.Now())
			s.note(c.node, err)
			errs.add(err)
		}
	}
	if n := errs.serious(); n > 0 {
		r.recorder.Eventf(s.mw, corev1.EventTypeWarning, eventFailedUpdate, "Error updating %d NodeWorkloads: %v", n, errs.first)
	}
	return without, errs.err()
}

// maxRefusal bounds what is said of a change that failed.
const maxRefusal = 300

// note remembers on which nodes a change failed: others come first the next time.
func (s *scope) note(node string, err error) {
	switch {
	case err == nil:
		delete(s.memory.refused, node)
	case !writes.OnlyConflicts(err):
		s.memory.refused[node] = writes.Limit(err.Error(), maxRefusal)
	}
}

// changes are those of the batch. A revision that is gone is given to no node.
func (s *scope) changes() []change {
	g := s.rolling
	list := make([]change, 0, len(g.batch.Changes))
	for _, c := range g.batch.Changes {
		to := s.editions[c.Revision]
		if to == nil {
			g.batch.Waiting[c.Node] = rollout.WaitRevision
			continue
		}
		node := g.in.Nodes[c.Node].Name
		list = append(list, change{node: node, share: s.shares[node], to: to})
	}
	return list
}

// mayAllSpread says which revisions admission would let pass now. That of the template is
// asked about in any case: a condition says what follows.
func (r *Reconciler) mayAllSpread(ctx context.Context, s *scope, changes []change) (map[string]bool, error) {
	spreading := map[string]bool{}
	for i := range changes {
		if changes[i].spreads() {
			spreading[changes[i].to.revision] = true
		}
	}
	may, err := r.maySpread(ctx, s, spreading[s.hash])
	allowed := map[string]bool{s.hash: may}
	for revision := range spreading {
		if revision == s.hash {
			continue
		}
		answer, err := r.admission.Again(ctx, s.mw, s.editions[revision].template(), true, s.now)
		if err != nil {
			return allowed, err
		}
		allowed[revision] = answer.Refused == ""
		if answer.Refused != "" && s.answer.Refused == "" {
			s.answer.Refused = answer.Refused
		}
		if !answer.Recheck.IsZero() {
			s.wakeAfter(max(answer.Recheck.Sub(s.now), time.Second))
		}
	}
	return allowed, err
}

// carryOut gives a node with a NodeWorkload another revision.
func (r *Reconciler) carryOut(ctx context.Context, s *scope, c *change) error {
	if terminal(c.share) {
		return r.end(ctx, s, c.share, nil, byReplacement) // it could never run again
	}
	return r.update(ctx, s, c.share, c.to)
}

// superseded reports whether the object has changed since this reconciliation began: a
// template that is taken back is not carried further.
func (r *Reconciler) superseded(ctx context.Context, s *scope) bool {
	latest := &v1alpha1.ManagedWorkload{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(s.mw), latest, client.UnsafeDisableDeepCopy)
	if err == nil && fleet.Later(latest.ResourceVersion, s.mw.ResourceVersion) == s.mw.ResourceVersion {
		return false // it may be earlier: the object was read past a cache that lags
	}
	return err != nil || latest.UID != s.mw.UID || latest.Generation != s.mw.Generation || !latest.DeletionTimestamp.IsZero()
}

const (
	// maxFailures is how many failed updates end a batch: what the API server refuses so
	// often it mostly refuses for all.
	maxFailures = 5
	// maxRepairs is how many NodeWorkloads one reconciliation repairs.
	maxRepairs = rollout.MaxBatch
)

// repair puts labels, finalizer and back-off of NodeWorkloads right, which restarts
// nothing. Their revision stays.
func (r *Reconciler) repair(ctx context.Context, s *scope) error {
	var errs failures
	repaired := 0
	for i, p := range s.place() {
		share := s.shares[s.nodes[i].Name]
		if share == nil || share.Deleting() || !p.ShouldContinue {
			continue
		}
		keeps := s.keeps(share)
		if !s.wanted.drifted(share, keeps.revision) {
			continue
		}
		if repaired == maxRepairs {
			s.left++
			continue
		}
		repaired++
		errs.add(r.update(ctx, s, share, keeps))
	}
	if s.left > 0 {
		s.more = true
	}
	return errs.err()
}

// keeps is what a share has: its revision with the template that it has now.
func (s *scope) keeps(share *fleet.Share) *edition {
	revision, _ := s.revisionOf(share)
	return &edition{revision: revision, hash: share.SpecHash}
}

// markRolledOut notes that all nodes are available with the update revision.
func (r *Reconciler) markRolledOut(ctx context.Context, s *scope) error {
	if s.revision == nil || s.revision.Spec.RolledOut {
		return nil
	}
	if err := r.editRevision(ctx, s, s.revision.Spec.Revision, true); err != nil {
		return fmt.Errorf("mark revision %q as rolled out: %w", s.revision.Name, err)
	}
	return nil
}
