// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// RequestEnd writes the grace period of the end that is to come, or is under way,
// and who asked for it. It returns the Share as it is then.
func RequestEnd(ctx context.Context, c client.Client, s *Share, grace *int64, by string) (*Share, error) {
	edit := s.Edit()
	if wanted := shrunkGrace(s, grace); !ptr.Equal(wanted, s.DeletionGrace) {
		edit.Set(*wanted, "spec", "deletionGracePeriodSeconds")
	}
	if !s.Deleting() && s.RequestedBy == "" {
		s.Annotate(edit, v1alpha1.AnnotationRequestedBy, by)
	}
	if edit.Empty() {
		return s, nil
	}
	nw, err := edit.Apply(ctx, c)
	if apierrors.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("request the end of NodeWorkload %q: %w", s.Name, err)
	}
	return ShareOf(nw, s), nil
}

// Annotate adds an annotation to an edit of the object.
func (s *Share) Annotate(edit *writes.Edit, key, value string) {
	if !s.Annotated {
		edit.Set(map[string]string{key: value}, "metadata", "annotations")
		return
	}
	edit.Set(value, "metadata", "annotations", key)
}

// DropFinalizer adds to an edit of the object that its finalizer of ours goes. It reports
// whether it has one.
func (s *Share) DropFinalizer(edit *writes.Edit) bool {
	at := slices.Index(s.Finalizers, v1alpha1.Finalizer)
	if at >= 0 {
		edit.Remove("metadata", "finalizers", strconv.Itoa(at))
	}
	return at >= 0
}

// KeepFinalizer adds to an edit of the object that it has our finalizer.
func (s *Share) KeepFinalizer(edit *writes.Edit) {
	switch {
	case slices.Contains(s.Finalizers, v1alpha1.Finalizer):
	case len(s.Finalizers) == 0:
		edit.Set([]string{v1alpha1.Finalizer}, "metadata", "finalizers")
	default:
		edit.Set(v1alpha1.Finalizer, "metadata", "finalizers", "-")
	}
}

// AsSeen lets a deletion fail when the object has changed meanwhile: it may have
// been let go, to keep its containers.
func (s *Share) AsSeen() client.Preconditions {
	return client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion}
}

// Object is the NodeWorkload with nothing but its name, as deletions and events need it.
func (s *Share) Object() *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}}
}

// Ended is the Share after its deletion was asked for.
func (s *Share) Ended(now time.Time) *Share {
	ended := *s
	ended.Deleted = now
	return &ended
}

// shrunkGrace is the deletionGracePeriodSeconds that a NodeWorkload should have
// when seconds are wanted: never more than it has now, nor than its template's
// grace period, because it may only shrink, and never what the API does not take. A
// NodeWorkload that the manager did not create may lack the default.
func shrunkGrace(s *Share, wanted *int64) *int64 {
	if wanted == nil {
		return s.DeletionGrace
	}
	return new(max(min(s.Grace(), *wanted), 0))
}

// Grace is the grace period with which it ends, in seconds.
func (s *Share) Grace() int64 {
	return ptr.Deref(s.DeletionGrace, ptr.Deref(s.Demands.Grace, corev1.DefaultTerminationGracePeriodSeconds))
}

// shimEdit sets the condition ShimResponding and leaves all others as they are.
func (s *Share) shimEdit(condition metav1.Condition) *writes.Edit {
	if s.Shim == nil {
		return s.addition(condition)
	}
	edit, at := s.conditionEdit(v1alpha1.ConditionShimResponding, s.shimAt)
	edit.Replace(condition, "status", "conditions", at)
	return edit
}

// conditionEdit begins a change of the condition of a type, which is at an index.
func (s *Share) conditionEdit(kind string, index int16) (edit *writes.Edit, at string) {
	edit, at = s.Edit(), strconv.Itoa(int(index))
	edit.Test(kind, "status", "conditions", at, "type")
	return edit, at
}

// addition adds a condition that is not there.
func (s *Share) addition(condition metav1.Condition) *writes.Edit {
	edit := s.Edit()
	if s.conditions > 0 {
		edit.Set(condition, "status", "conditions", "-")
	} else {
		edit.Set([]metav1.Condition{condition}, "status", "conditions")
	}
	return edit
}
