// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/admitted"
	"github.com/managedworkload/managedworkload/api/objects"
)

// notInstalled is why no node gets an object.
const notInstalled = "the component objects is not installed"

// needsObjects refuses what no node could get where the component objects is not installed.
func (j *Judge) needsObjects(t *corev1.PodTemplateSpec) field.ErrorList {
	if !j.options.NoTokens || t == nil {
		return nil
	}
	var errs field.ErrorList
	for _, path := range objects.Paths(&t.Spec, templatePath.Child("spec")) {
		errs = append(errs, field.Forbidden(path, notInstalled+", so that nodes get no ConfigMaps, Secrets and tokens; an administrator installs it with config/components/objects"))
	}
	return errs
}

// besidesSaid are the errors about fields of which no other speaks.
func besidesSaid(said, more field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(more, func(err *field.Error) bool {
		return slices.ContainsFunc(said, func(known *field.Error) bool {
			return err.Field == known.Field || strings.HasPrefix(err.Field, known.Field+".") || strings.HasPrefix(err.Field, known.Field+"[")
		})
	})
}

// aboutAccount says what a Pod might get of its ServiceAccount and the workload does not:
// the token, where the user is silent about it, and image pull secrets.
func (j *Judge) aboutAccount(user, t *corev1.PodTemplateSpec) string {
	if t == nil {
		return ""
	}
	var missing []string
	if user.Spec.AutomountServiceAccountToken == nil && !admitted.HasToken(&t.Spec) {
		missing = append(missing, "no service account token is mounted")
	}
	if !j.options.NoTokens {
		return strings.Join(missing, "")
	}
	if len(t.Spec.ImagePullSecrets) == 0 {
		missing = append(missing, "image pull secrets of the ServiceAccount are not used")
	}
	if len(missing) == 0 {
		return ""
	}
	return strings.Join(missing, " and ") + ": " + notInstalled
}
