// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/internal/revision"
)

// defaultHistoryLimit is how many revisions are kept that no node has, unless the spec says
// so: a DaemonSet's default.
const defaultHistoryLimit = 10

// annotationChangeCause on a workload says why it was changed, in the words of whoever did.
// Its revision keeps them, as those of a Deployment and a DaemonSet do.
const annotationChangeCause = "kubernetes.io/change-cause"

// gatherRevisions reads the revisions that the object controls, and finds the one of its
// template.
func (r *Reconciler) gatherRevisions(ctx context.Context, s *scope) error {
	list := &v1alpha1.ManagedWorkloadRevisionList{}
	if err := r.client.List(ctx, list, client.InNamespace(s.mw.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingLabels{v1alpha1.LabelWorkload: placement.LabelValue(s.mw.Name)}); err != nil {
		return fmt.Errorf("list revisions: %w", err)
	}
	for i := range list.Items {
		revision := &list.Items[i]
		switch {
		case !metav1.IsControlledBy(revision, s.mw):
			continue
		case !s.intact(revision):
			s.foreign = append(s.foreign, revision)
			continue
		}
		s.revisions = append(s.revisions, revision)
		if revision.Labels[v1alpha1.LabelRevision] == s.hash && revision.DeletionTimestamp.IsZero() {
			s.revision = revision
		}
	}
	return nil
}

// intact reports whether a revision has the user's template that its label identifies: one that
// was edited by hand is not used. What was found is remembered.
func (s *scope) intact(object *v1alpha1.ManagedWorkloadRevision) bool {
	_, known := s.memory.hashes[keyOf(object)]
	return known || fleet.Intact(object)
}

// revisionKey identifies a state of a revision.
type revisionKey struct {
	uid     types.UID
	version string
}

func keyOf(revision *v1alpha1.ManagedWorkloadRevision) revisionKey {
	return revisionKey{revision.UID, revision.ResourceVersion}
}

// placed is what admission made of the template before, nil if it was never asked: by its
// revision, and without one by a NodeWorkload of it, for whoever has everything in a
// namespace may delete revisions.
func (r *Reconciler) placed(ctx context.Context, s *scope) (*corev1.PodTemplateSpec, error) {
	if s.revision != nil {
		return s.revision.Spec.Template.DeepCopy(), nil
	}
	for _, share := range s.all() {
		if share.Revision() != s.hash {
			continue
		}
		nw := &v1alpha1.NodeWorkload{}
		err := r.live.Get(ctx, share.Key(), nw)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get NodeWorkload %q past the cache: %w", share.Name, err)
		}
		if err == nil && fleet.ShareOf(nw, nil).Revision() == s.hash {
			return &nw.Spec.Template, nil
		}
	}
	return nil, nil
}

// reconcileRevision makes the revision of an accepted template, gives it the highest number,
// and removes the oldest of those that no node has.
// ready reports whether the revision of the template is there.
func (r *Reconciler) reconcileRevision(ctx context.Context, s *scope) (ready bool, err error) {
	var errs failures
	for _, edited := range s.foreign {
		r.warn(s.mw, eventRevisionEdited, "Deleted revision "+edited.Name+": its template was changed by hand")
		errs.add(r.deleteRevision(ctx, edited))
	}
	number := rollout.Number(s.history(), s.hash)
	switch {
	case s.revision == nil:
		errs.add(r.createRevision(ctx, s, number))
	case s.revision.Spec.Revision != number:
		errs.add(r.editRevision(ctx, s, number, rollout.StaysRolledOut(s.history(), s.hash)))
	}
	if s.revision == nil || s.revision.Spec.Revision != number {
		return false, errs.err()
	}
	limit := int(ptr.Deref(s.mw.Spec.RevisionHistoryLimit, defaultHistoryLimit))
	if len(s.revisions)-1 > limit {
		for _, expired := range rollout.Expired(s.history(), s.usedRevisions(), limit) {
			errs.add(r.deleteRevision(ctx, s.revisionObject(expired.Hash)))
		}
	}
	return true, errs.err()
}

// usedRevisions are those that a node has or may get, or of whose template it says that it runs.
func (s *scope) usedRevisions() map[string]bool {
	used := map[string]bool{s.hash: true, s.currentRevision(): true}
	for _, share := range s.all() {
		revision, _ := s.revisionOf(share)
		used[revision], used[share.Revision()] = true, true
		for runs, e := range s.editions {
			if e.hash == share.TemplateHash {
				used[runs] = true
			}
		}
	}
	return used
}

// revisionObject is the object of a revision of history.
func (s *scope) revisionObject(hash string) *v1alpha1.ManagedWorkloadRevision {
	i := slices.IndexFunc(s.revisions, func(object *v1alpha1.ManagedWorkloadRevision) bool {
		return object.Labels[v1alpha1.LabelRevision] == hash
	})
	return s.revisions[i]
}

// editRevision writes what of the revision of the template may change.
func (r *Reconciler) editRevision(ctx context.Context, s *scope, number int64, rolledOut bool) error {
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	edited := s.revision.DeepCopy()
	edited.Spec.Revision, edited.Spec.RolledOut = number, rolledOut
	if number != s.revision.Spec.Revision { // rolled out again, for another reason
		setChangeCause(edited, s.mw)
	}
	if err := r.client.Patch(ctx, edited, writes.Locked(s.revision)); err != nil {
		return fmt.Errorf("update revision %q: %w", s.revision.Name, err)
	}
	for i := range s.revisions {
		if s.revisions[i].UID == edited.UID {
			s.revisions[i] = edited
		}
	}
	s.revision, s.current = edited, ""
	logr.FromContextOrDiscard(ctx).Info("Updated revision", "revision", edited.Name, "number", number, "rolledOut", rolledOut)
	return nil
}

func (r *Reconciler) createRevision(ctx context.Context, s *scope, number int64) error {
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	spec, err := revision.Spec(&s.template, s.admitted)
	if err != nil {
		return fmt.Errorf("make a revision: %w", err)
	}
	spec.Revision = number
	made := &v1alpha1.ManagedWorkloadRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.mw.Namespace,
			Name:            placement.RevisionName(s.mw.Name, s.hash),
			Labels:          map[string]string{v1alpha1.LabelWorkload: placement.LabelValue(s.mw.Name), v1alpha1.LabelRevision: s.hash},
			OwnerReferences: []metav1.OwnerReference{writes.OwnerReference(s.mw)},
		},
		Spec: spec,
	}
	setChangeCause(made, s.mw)
	err = r.client.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		return r.takeRevision(ctx, s, made)
	}
	if err != nil {
		return fmt.Errorf("create revision %q: %w", made.Name, err)
	}
	s.revision, s.revisions, s.current = made, append(s.revisions, made), ""
	logr.FromContextOrDiscard(ctx).Info("Created revision", "revision", made.Name, "number", number)
	return nil
}

// setChangeCause gives a revision the words of the workload for its roll-out.
func setChangeCause(revision *v1alpha1.ManagedWorkloadRevision, mw *v1alpha1.ManagedWorkload) {
	cause := mw.Annotations[annotationChangeCause]
	if cause == "" {
		delete(revision.Annotations, annotationChangeCause)
		return
	}
	metav1.SetMetaDataAnnotation(&revision.ObjectMeta, annotationChangeCause, cause)
}

// takeRevision deals with a revision that has the name of ours: the cache is behind, or
// an earlier object of our name left it. That one is replaced: what was admitted for
// another object says nothing about this one.
func (r *Reconciler) takeRevision(ctx context.Context, s *scope, wanted *v1alpha1.ManagedWorkloadRevision) error {
	there := &v1alpha1.ManagedWorkloadRevision{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(wanted), there); err != nil {
		return fmt.Errorf("get revision %q: %w", wanted.Name, err)
	}
	if metav1.IsControlledBy(there, s.mw) && fleet.Intact(there) {
		s.revision, s.revisions, s.current = there, append(s.revisions, there), ""
		return nil
	}
	if err := r.deleteRevision(ctx, there); err != nil {
		return err
	}
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("managedworkloadrevisions").GroupResource(), wanted.Name,
		errors.New("it was of an earlier object or another template"))
}

func (r *Reconciler) deleteRevision(ctx context.Context, revision *v1alpha1.ManagedWorkloadRevision) error {
	err := r.client.Delete(ctx, revision, client.Preconditions{UID: &revision.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete revision %q: %w", revision.Name, err)
	}
	return nil
}

// deleteRevisions removes all revisions of an object that goes; there may be no garbage
// collector.
func (r *Reconciler) deleteRevisions(ctx context.Context, s *scope) error {
	var errs []error
	for _, revision := range slices.Concat(s.revisions, s.foreign) {
		errs = append(errs, r.deleteRevision(ctx, revision))
	}
	return errors.Join(errs...)
}

// maySpread reports whether nodes get the template that do not have it, by what admission
// would make of it now. spreads says that there are such nodes.
func (r *Reconciler) maySpread(ctx context.Context, s *scope, spreads bool) (bool, error) {
	answer, err := r.admission.Again(ctx, s.mw, s.admitted, spreads, s.now)
	s.answer = answer
	if !answer.Recheck.IsZero() {
		s.wakeAfter(max(answer.Recheck.Sub(s.now), time.Second))
	}
	return err == nil && answer.Refused == "", err
}
