// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/admitted"
	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Review is what can be said of a ManagedWorkload before it is stored.
type Review struct {
	// Causes are all reasons to refuse its template that are known at once: those of the
	// table of fields and of the validation of Pods, or the first refusal of admission.
	Causes []metav1.StatusCause
	// Warnings name what is accepted and has no effect, or another than for a Pod.
	Warnings []string
}

// ReviewFields says what can be said of an object that is not stored yet without asking the API server:
// what the table of fields says.
func (j *Judge) ReviewFields(mw *v1alpha1.ManagedWorkload) Review {
	refused, ignored := template.Check(&mw.Spec.Template, templatePath)
	if err := negativeGrace(&mw.Spec.Template); err != nil {
		refused = append(refused, err)
	}
	refused = append(refused, ownAnnotations(&mw.Spec.Template)...)
	refused = append(refused, besidesSaid(refused, j.needsObjects(&mw.Spec.Template))...)
	r := Review{Causes: causes(refused)}
	for _, path := range ignored {
		r.Warnings = append(r.Warnings, path+" is ignored")
	}
	for _, path := range objects.OwnPod(&mw.Spec.Template.Spec, templatePath.Child("spec")) {
		r.Warnings = append(r.Warnings, path.String()+": "+objects.OwnPodAdvice)
	}
	if _, problem := DeletionGrace(mw.Annotations); problem != "" {
		r.Warnings = append(r.Warnings, problem+"; a deletion uses the template's grace period")
	}
	return r
}

// Review asks about the template of an object that is not stored yet. It remembers
// nothing. The error is one of asking: then Causes are those of the table of fields.
func (j *Judge) Review(ctx context.Context, mw *v1alpha1.ManagedWorkload) (Review, error) {
	r := j.ReviewFields(mw)
	t := mw.Spec.Template.DeepCopy()
	template.SetDefaults(t)
	pod, status, err := j.ask(ctx, mw, t, j.options.NoTokens)
	switch {
	case status != nil && strings.Contains(status.Message, noAccount): // it may come with the same apply
		r.Warnings = append(r.Warnings, status.Message+"; the template is asked about again, and the condition Accepted says whether it passes")
		return r, nil
	case err != nil:
		return r, err
	case status != nil:
		r.Causes = append(r.Causes, besides(r.Causes, status)...)
		return r, nil
	}
	if err := j.reviewAdmitted(ctx, mw, pod, t, &r); err != nil {
		return r, err
	}
	words, err := j.uncounted(ctx, pod)
	if words != "" {
		r.Causes = append(r.Causes, inWhole(words))
	}
	return r, err
}

// reviewAdmitted adds to a review what follows from the Pod that admission let pass.
func (j *Judge) reviewAdmitted(ctx context.Context, mw *v1alpha1.ManagedWorkload, pod *corev1.Pod, t *corev1.PodTemplateSpec, r *Review) error {
	made := admitted.Question{NoTokens: j.options.NoTokens}.Template(pod, t)
	class, err := j.pinHandler(ctx, made)
	if err != nil {
		return err
	}
	if class != "" {
		r.Causes = append(r.Causes, inWhole(class))
	}
	if words := cmp.Or(refusedFields(made), words(j.needsObjects(made))); words != "" && len(r.Causes) == 0 {
		r.Causes = append(r.Causes, inWhole("injected by admission: "+words))
	}
	missing, err := j.needsTokenRight(ctx, mw, made)
	if err != nil {
		return err
	}
	if missing != nil {
		r.Causes = append(r.Causes, causes(field.ErrorList{missing})...)
	}
	for _, path := range injectedInVain(made, t) {
		r.Warnings = append(r.Warnings, path+" is injected by admission and ignored")
	}
	if about := j.aboutAccount(&mw.Spec.Template, made); about != "" && j.options.NoTokens {
		r.Warnings = append(r.Warnings, about)
	}
	return nil
}

// causes are errors about fields as the API tells them.
func causes(errs field.ErrorList) []metav1.StatusCause {
	list := make([]metav1.StatusCause, 0, len(errs))
	for _, err := range errs {
		list = append(list, metav1.StatusCause{Type: metav1.CauseType(err.Type), Message: err.ErrorBody(), Field: err.Field})
	}
	return list
}

// inWhole is a cause that is in no field of its own.
func inWhole(message string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeForbidden, Message: message, Field: templatePath.String()}
}

// besides are the reasons of the API server for fields about which nothing was said: the
// table of fields says what to do instead.
func besides(said []metav1.StatusCause, status *metav1.Status) []metav1.StatusCause {
	found := causesInTemplate(status)
	if len(found) == 0 {
		return []metav1.StatusCause{inWhole(status.Message)}
	}
	return slices.DeleteFunc(found, func(cause metav1.StatusCause) bool {
		return slices.ContainsFunc(said, func(known metav1.StatusCause) bool { return known.Field == cause.Field })
	})
}

// DeletionGrace reads the grace period of a ManagedWorkload's deletion from its
// annotation, in seconds; nil means the template's own. problem says what is
// wrong with the annotation.
func DeletionGrace(annotations map[string]string) (seconds *int64, problem string) {
	value, ok := annotations[v1alpha1.AnnotationDeletionGracePeriodSeconds]
	if !ok {
		return nil, ""
	}
	n, ok := v1alpha1.DeletionGrace(value)
	if !ok {
		return nil, fmt.Sprintf("annotation %s: %q is not a number of seconds from 0 on", v1alpha1.AnnotationDeletionGracePeriodSeconds, writes.Limit(value, 64))
	}
	return &n, ""
}
