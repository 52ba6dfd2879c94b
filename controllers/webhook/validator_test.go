// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
)

// judge answers always the same.
type judge struct {
	review admission.Review
	err    error
	asked  int
}

func (j *judge) Review(context.Context, *v1alpha1.ManagedWorkload) (admission.Review, error) {
	j.asked++
	return j.review, j.err
}

func (j *judge) ReviewFields(*v1alpha1.ManagedWorkload) admission.Review { return j.review }

// A change that could be refused is reviewed, and no other.
func TestValidate(t *testing.T) {
	causes := []metav1.StatusCause{{Type: metav1.CauseTypeForbidden, Field: "spec.template.spec.volumes[0]", Message: "Forbidden: use another"}}
	refusing := judge{review: admission.Review{Causes: causes, Warnings: []string{"ignored"}}}
	image := func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Labels = map[string]string{"a": "b"} }
	tests := map[string]struct {
		judge    judge
		create   bool
		change   func(*v1alpha1.ManagedWorkload)
		asked    int
		refused  bool
		warnings []string
	}{
		"a new one":                 {judge: refusing, create: true, asked: 1, refused: true, warnings: []string{"ignored"}},
		"a new one that is right":   {create: true, asked: 1},
		"another template":          {judge: refusing, change: image, asked: 1, refused: true, warnings: []string{"ignored"}},
		"the same template":         {judge: refusing, change: func(mw *v1alpha1.ManagedWorkload) { mw.Labels = map[string]string{"a": "b"} }},
		"while it is deleted":       {judge: refusing, change: func(mw *v1alpha1.ManagedWorkload) { image(mw); mw.DeletionTimestamp = new(metav1.Now()) }},
		"admission does not answer": {judge: judge{err: errors.New("too slow")}, create: true, asked: 1, warnings: []string{"admission could not be asked"}},
		"the table refuses, and admission does not answer": {
			judge: judge{review: admission.Review{Causes: causes}, err: errors.New("too slow")}, create: true, asked: 1, refused: true,
			warnings: []string{"admission could not be asked"},
		},
		"a grace annotation that cannot be read": {
			judge: refusing, warnings: []string{"annotation managedworkload.dev/deletion-grace-period-seconds"},
			change: func(mw *v1alpha1.ManagedWorkload) {
				mw.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "5s"}
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := &validator{judge: &tt.judge, turns: newTurns()}
			old := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
			mw := old.DeepCopy()
			if tt.change != nil {
				tt.change(mw)
			}
			warnings, err := v.ValidateUpdate(t.Context(), old, mw)
			if tt.create {
				tt.judge.asked = 0
				warnings, err = v.ValidateCreate(t.Context(), mw)
			}
			if tt.judge.asked != tt.asked || len(warnings) != len(tt.warnings) {
				t.Fatalf("asked %d times, warnings %q, error %v", tt.judge.asked, warnings, err)
			}
			for i := range warnings {
				if !strings.HasPrefix(warnings[i], tt.warnings[i]) {
					t.Errorf("warning %q, want %q", warnings[i], tt.warnings[i])
				}
			}
			var status apierrors.APIStatus
			if !tt.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.As(err, &status) {
				t.Fatalf("error %v", err)
			}
			got := status.Status()
			if diff := cmp.Diff(causes, got.Details.Causes); diff != "" || got.Reason != metav1.StatusReasonInvalid ||
				got.Details.Kind != "ManagedWorkload" || got.Details.Name != "web" {
				t.Errorf("status %+v, causes (-want +got):\n%s", got, diff)
			}
		})
	}
}
