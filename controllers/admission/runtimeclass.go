// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// pinHandler writes the handler of a template's runtime class into it: a shim reads no
// RuntimeClasses. Admission of runtime classes has added the class's overhead, node selector
// and tolerations. refused says that there is no such class.
func (j *Judge) pinHandler(ctx context.Context, t *corev1.PodTemplateSpec) (refused string, err error) {
	delete(t.Annotations, v1alpha1.AnnotationRuntimeHandler)
	if t.Spec.RuntimeClassName == nil || *t.Spec.RuntimeClassName == "" {
		return "", nil
	}
	class := &nodev1.RuntimeClass{}
	err = j.client.Get(ctx, types.NamespacedName{Name: *t.Spec.RuntimeClassName}, class)
	if apierrors.IsNotFound(err) {
		return field.NotFound(templatePath.Child("spec", "runtimeClassName"), *t.Spec.RuntimeClassName).Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("get RuntimeClass %q: %w", *t.Spec.RuntimeClassName, err)
	}
	metav1.SetMetaDataAnnotation(&t.ObjectMeta, v1alpha1.AnnotationRuntimeHandler, class.Handler)
	return "", nil
}

// ownAnnotations refuses what only the manager writes into a template.
func ownAnnotations(t *corev1.PodTemplateSpec) field.ErrorList {
	if _, set := t.Annotations[v1alpha1.AnnotationRuntimeHandler]; !set {
		return nil
	}
	return field.ErrorList{field.Forbidden(templatePath.Child("metadata", "annotations").Key(v1alpha1.AnnotationRuntimeHandler),
		"the manager sets it; remove it, and set runtimeClassName")}
}
