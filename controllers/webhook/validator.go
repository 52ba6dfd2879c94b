// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
)

// askTimeout bounds the question to the API server: it waits 5 s for the answer to its
// own.
const askTimeout = 3 * time.Second

// reviewer is what the validator asks about a template.
type reviewer interface {
	Review(ctx context.Context, mw *v1alpha1.ManagedWorkload) (admission.Review, error)
	ReviewFields(mw *v1alpha1.ManagedWorkload) admission.Review
}

// validator refuses ManagedWorkloads whose template would be refused.
type validator struct {
	judge reviewer
	// turns are those of the users in whose name the API server asks; nil for callers that are
	// not recognised: they learn nothing of the cluster.
	turns *turns
}

var _ ctrladmission.Validator[*v1alpha1.ManagedWorkload] = (*validator)(nil)

// ValidateCreate reviews a new object.
func (v *validator) ValidateCreate(ctx context.Context, mw *v1alpha1.ManagedWorkload) (ctrladmission.Warnings, error) {
	return v.review(ctx, mw)
}

// ValidateUpdate reviews a template or an annotation that has changed. One that is there
// already is not refused later: a namespace that became stricter must not keep its people
// from changing a label.
func (v *validator) ValidateUpdate(ctx context.Context, old, mw *v1alpha1.ManagedWorkload) (ctrladmission.Warnings, error) {
	const grace = v1alpha1.AnnotationDeletionGracePeriodSeconds
	switch {
	case !mw.DeletionTimestamp.IsZero():
		return nil, nil
	case !equality.Semantic.DeepEqual(old.Spec.Template, mw.Spec.Template):
		return v.review(ctx, mw)
	case old.Annotations[grace] != mw.Annotations[grace]:
		if _, problem := admission.DeletionGrace(mw.Annotations); problem != "" {
			return ctrladmission.Warnings{problem + "; a deletion uses the template's grace period"}, nil
		}
	}
	return nil, nil
}

// ValidateDelete refuses nothing.
func (*validator) ValidateDelete(context.Context, *v1alpha1.ManagedWorkload) (ctrladmission.Warnings, error) {
	return nil, nil
}

func (v *validator) review(ctx context.Context, mw *v1alpha1.ManagedWorkload) (ctrladmission.Warnings, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if request, err := ctrladmission.RequestFromContext(ctx); err == nil && mw.Namespace == "" {
		mw.Namespace = request.Namespace
	}
	review, err := v.ask(ctx, mw)
	warnings := ctrladmission.Warnings(review.Warnings)
	switch {
	case errors.Is(err, errUnrecognised):
		warnings = append(warnings, err.Error()+"; the condition Accepted will say whether it passes")
	case err != nil:
		logr.FromContextOrDiscard(ctx).Info("Failed to ask about a template; the manager asks again", "managedWorkload", mw.Namespace+"/"+mw.Name, "reason", err.Error())
		warnings = append(warnings, "admission could not be asked about the template now; the condition Accepted will say whether it passes")
	}
	if len(review.Causes) == 0 {
		return warnings, nil
	}
	return warnings, refused(mw, review.Causes)
}

// errUnrecognised is why a caller learns only what the template itself shows.
var errUnrecognised = errors.New("the manager does not recognise the API server, so admission was not asked about the template")

// ask reviews a template as far as the caller may know the answer, one after another for each user.
func (v *validator) ask(ctx context.Context, mw *v1alpha1.ManagedWorkload) (admission.Review, error) {
	if v.turns == nil {
		return v.judge.ReviewFields(mw), errUnrecognised
	}
	leave, err := v.turns.enter(ctx, userOf(ctx))
	if err != nil {
		return v.judge.ReviewFields(mw), err
	}
	defer leave()
	return v.judge.Review(ctx, mw)
}

// refused is the answer that kubectl shows as a list of fields.
func refused(mw *v1alpha1.ManagedWorkload, causes []metav1.StatusCause) error {
	name := mw.Name
	if name == "" {
		name = mw.GenerateName
	}
	err := apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("ManagedWorkload").GroupKind(), name, nil)
	words := make([]string, 0, len(causes))
	for _, cause := range causes {
		words = append(words, cause.Field+": "+cause.Message)
	}
	err.ErrStatus.Message = strings.Join(words, "; ")
	err.ErrStatus.Details.Causes = causes
	return err
}
