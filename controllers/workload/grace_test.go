// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestDeletionGrace(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		want        *int64
		wantProblem bool
	}{
		"none":        {},
		"seconds":     {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "7"}, want: ptr.To[int64](7)},
		"zero":        {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "0"}, want: ptr.To[int64](0)},
		"negative":    {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "-1"}, wantProblem: true},
		"a duration":  {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "5s"}, wantProblem: true},
		"empty":       {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: ""}, wantProblem: true},
		"enormous":    {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "99999999999999999999"}, wantProblem: true},
		"another one": {annotations: map[string]string{"example.com/grace": "7"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, problem := deletionGrace(tc.annotations)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("seconds (-want +got):\n%s", diff)
			}
			if (problem != "") != tc.wantProblem {
				t.Errorf("problem = %q, want one: %v", problem, tc.wantProblem)
			}
			if tc.wantProblem && !strings.Contains(problem, v1alpha1.AnnotationDeletionGracePeriodSeconds) {
				t.Errorf("problem %q does not name the annotation", problem)
			}
		})
	}
}
