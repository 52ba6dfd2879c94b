// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/admitted"
	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// TokenRights knows of which service accounts nodes get tokens.
type TokenRights interface {
	// TokenRight returns why they get none of an account, with the command that grants the right; ""
	// if they do. The error is one of asking.
	TokenRight(ctx context.Context, namespace, account string) (missing string, err error)
}

// needsTokenRight refuses an admitted template that asks for a token where the namespace does not
// let the manager make one: its containers would wait for it.
func (j *Judge) needsTokenRight(ctx context.Context, mw *v1alpha1.ManagedWorkload, made *corev1.PodTemplateSpec) (*field.Error, error) {
	if j.options.Tokens == nil || j.options.NoTokens || !admitted.HasToken(&made.Spec) {
		return nil, nil
	}
	missing, err := j.options.Tokens.TokenRight(ctx, mw.Namespace, cmp.Or(made.Spec.ServiceAccountName, "default"))
	if err != nil || missing == "" {
		return nil, err
	}
	path := templatePath.Child("spec")
	for _, asking := range objects.Paths(&mw.Spec.Template.Spec, path) {
		if name := asking.String(); strings.HasSuffix(name, ".serviceAccountToken") || strings.HasSuffix(name, ".automountServiceAccountToken") {
			return field.Forbidden(asking, missing), nil
		}
	}
	return field.Forbidden(path.Child("automountServiceAccountToken"),
		"it is not set, so that containers get a token; if they need none, set it to false; otherwise: "+missing), nil
}

// noRight is the refusal of a template that needs a right.
func noRight(missing *field.Error) *refusal {
	if missing == nil {
		return nil
	}
	return &refusal{v1alpha1.ReasonNoRight, missing.Error()}
}
