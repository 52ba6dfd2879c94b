// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/admitted"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// admitted is what admission would make of a template, by a dry run of a Pod as the manager
// asks for it. It is nil where the user may not create Pods or admission refuses the Pod; then
// note says so.
func (c *cluster) admitted(ctx context.Context, mw *v1alpha1.ManagedWorkload) (made *corev1.PodTemplateSpec, note string, err error) {
	installed, err := c.objectsInstalled()
	if err != nil {
		return nil, "", err
	}
	t := mw.Spec.Template.DeepCopy()
	template.SetDefaults(t)
	q := admitted.Question{Namespace: mw.Namespace, Name: "w" + utilrand.String(12), NoTokens: !installed}
	pod := q.Pod(t)
	err = c.Create(ctx, pod, client.DryRunAll)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		words := strings.ReplaceAll(err.Error(), pod.Name, mw.Name)
		return nil, "Kills are computed from what the user wrote: a dry run of the template as a Pod is refused: " + words, nil
	case err != nil:
		return nil, "", fmt.Errorf("ask the API server to admit the template as a dry run: %w", err)
	}
	return q.Template(pod, t), "", nil
}

// objectsInstalled reports whether the component is there that gives nodes ConfigMaps,
// Secrets and tokens.
func (c *cluster) objectsInstalled() (bool, error) {
	_, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: subresources.GroupVersion.Group, Kind: "NodeObject"})
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("find out whether the component objects is installed: %w", err)
	}
	return true, nil
}
