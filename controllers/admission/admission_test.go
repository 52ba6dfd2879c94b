// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What the API server says about the Pod that it was asked about is said about the
// template.
func TestRefusalIsAboutTheTemplate(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x-node", field.ErrorList{
		field.Required(field.NewPath("spec", "containers").Index(0).Child("image"), ""),
		field.Invalid(field.NewPath("metadata", "labels"), "-", "a bad label"),
	})
	tests := map[string]struct {
		status metav1.Status
		want   string
	}{
		"invalid": {
			status: invalid.ErrStatus,
			want:   `spec.template.spec.containers[0].image: Required value; spec.template.metadata.labels: Invalid value: "-": a bad label`,
		},
		"forbidden": {
			status: metav1.Status{Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: `pods "x-node" is forbidden: violates PodSecurity`},
			want:   `pods "x-node" is forbidden: violates PodSecurity`,
		},
		"without causes": {status: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "words", Details: &metav1.StatusDetails{}}, want: "words"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := inTemplate(&tt.status); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
