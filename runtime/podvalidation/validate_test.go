// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/hack/podcases"
)

// controllers.TestAPIServerAgreesAboutPods asks a real API server about the same Pods.
func TestWhatNoPodMayHaveIsRefused(t *testing.T) {
	cases, err := podcases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			pod, err := tc.Template()
			if err != nil {
				t.Fatal(err)
			}
			template.SetDefaults(pod)
			errs := Validate(pod, field.NewPath("template"))
			var got []string
			for _, err := range errs {
				got = append(got, strings.TrimPrefix(err.Field, "template."))
			}
			slices.Sort(got)
			got = slices.Compact(got)
			slices.Sort(tc.Want)
			if diff := cmp.Diff(tc.Want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("refused %v; fields (-want +got):\n%s", errs, diff)
			}
		})
	}
}
