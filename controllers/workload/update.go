// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// update brings a NodeWorkload to what it should be with an edition. What was changed by
// hand is put back, and an event says so.
func (r *Reconciler) update(ctx context.Context, s *scope, share *fleet.Share, to *edition) error {
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	edits, who, err := r.handEdits(ctx, s, share, to)
	if err != nil {
		return err
	}
	nw, err := s.updateOf(share, to, edits).Apply(ctx, r.client)
	if err != nil {
		return fmt.Errorf("update NodeWorkload %q: %w", share.Name, err) // and the status goes by share as it is
	}
	changed := r.fleet.Shares.Read(nw)
	for _, key := range s.wanted.labelDrift(changed, to.revision) { // in what the API server made of it
		s.wanted.imposed[key] = true
	}
	s.renew(changed)
	if len(edits) > 0 {
		r.warn(s.mw, eventPutBack, putBackMessage(share.Name, edits, who))
	}
	logr.FromContextOrDiscard(ctx).Info("Updated NodeWorkload", "nodeWorkload", share.Name, "node", share.Node, "revision", to.revision)
	return nil
}

// updateOf is the change of a NodeWorkload that makes it what it should be. edits are what
// was changed by hand.
func (s *scope) updateOf(share *fleet.Share, to *edition, edits []part) *writes.Edit {
	edit := share.Edit()
	edit.Set(s.wanted.labels(share.Node, to.revision), "metadata", "labels")
	share.KeepFinalizer(edit)
	if !sameBackoff(share.RestartBackoff, s.wanted.backoff) {
		if s.wanted.backoff != nil {
			edit.Set(s.wanted.backoff, "spec", "restartBackoff")
		} else {
			edit.Remove("spec", "restartBackoff")
		}
	}
	if share.SpecHash != to.hash {
		edit.Set(to.template(), "spec", "template")
	}
	if definition(s.wanted.drift(share, to)) {
		by := s.changedBy
		if definition(edits) {
			by = writes.FieldManager
		}
		setChangedBy(edit, share, by)
	}
	return edit
}

// handEdits looks at a NodeWorkload past the index, which has no managedFields, where
// not all of its drift is what the workload itself changed.
func (r *Reconciler) handEdits(ctx context.Context, s *scope, share *fleet.Share, to *edition) (edits []part, who string, err error) {
	if s.memory.applied != nil {
		if suspects, _ := s.handEdits(share, to, nil); len(suspects) == 0 {
			return nil, "", nil
		}
	}
	live := &v1alpha1.NodeWorkload{}
	if err := r.live.Get(ctx, share.Key(), live); err != nil {
		return nil, "", fmt.Errorf("get NodeWorkload %q past the cache: %w", share.Name, err)
	}
	edits, who = s.handEdits(fleet.ShareOf(live, nil), to, live.ManagedFields)
	return edits, who, nil
}

// setChangedBy tells the shim who changed the definition, as far as that is known.
func setChangedBy(edit *writes.Edit, share *fleet.Share, by string) {
	switch {
	case by == share.ChangedBy:
	case by == "":
		edit.Remove("metadata", "annotations", v1alpha1.AnnotationChangedBy)
	default:
		share.Annotate(edit, v1alpha1.AnnotationChangedBy, by)
	}
}

func putBackMessage(name string, edits []part, who string) string {
	var parts []string
	for _, p := range edits {
		parts = append(parts, p.String())
	}
	message := fmt.Sprintf("Put back %s of NodeWorkload %s", strings.Join(parts, ", "), name)
	if who != "" {
		message += ", changed by " + who
	}
	return message
}
