// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/podcases"
)

// What the shim refuses in a file, by runtime/podvalidation, is what the API server refuses in a Pod: no more, and no
// less. runtime/podvalidation.TestWhatNoPodMayHaveIsRefused has the same table.
func TestAPIServerAgreesAboutPods(t *testing.T) {
	c := newCluster(t)
	cases, err := podcases.All()
	if err != nil {
		t.Fatal(err)
	}
	for i, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			template, err := tc.Template()
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.Namespace, pod.Name = c.namespace, fmt.Sprintf("case-%d", i)
			err = api.Create(t.Context(), pod, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			want := tc.Want
			if tc.API != nil {
				want = *tc.API
			}
			if tc.Dropped {
				want = nil
			}
			if refused := err != nil; refused != (len(tc.Want) > 0 && !tc.Dropped) {
				t.Fatalf("error %v, want refused for %q", err, want)
			}
			got := refusedFields(err)
			slices.Sort(want)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("error %v; fields (-want +got):\n%s", err, diff)
			}
		})
	}
}

// refusedFields returns the fields that validation refuses.
func refusedFields(err error) []string {
	var fields []string
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsInvalid(err) {
		for _, cause := range status.ErrStatus.Details.Causes {
			fields = append(fields, cause.Field)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}
