// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// applied is what the object would be, by a dry run of what kubectl apply does.
func (c *cluster) applied(ctx context.Context, wanted *unstructured.Unstructured, o planOptions) (after *v1alpha1.ManagedWorkload, isNew bool, err error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(wanted.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	isNew = apierrors.IsNotFound(err)
	if err != nil && !isNew {
		return nil, false, err
	}
	result := wanted.DeepCopy()
	switch {
	case o.serverSide:
		err = c.applyServerSide(ctx, result, o)
	case isNew:
		err = c.Create(ctx, result, client.DryRunAll, client.FieldOwner(manager(o, "kubectl-client-side-apply")))
	default:
		result = live.DeepCopy()
		err = c.applyClientSide(ctx, wanted, live, result, o)
	}
	if err != nil {
		return nil, isNew, err
	}
	after = &v1alpha1.ManagedWorkload{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, after); err != nil {
		return nil, isNew, fmt.Errorf("read the answer of the API server: %w", err)
	}
	return after, isNew, nil
}

func manager(o planOptions, kubectls string) string {
	if o.fieldManager != "" {
		return o.fieldManager
	}
	return kubectls
}

func (c *cluster) applyServerSide(ctx context.Context, into *unstructured.Unstructured, o planOptions) error {
	data, err := json.Marshal(into)
	if err != nil {
		return err
	}
	options := []client.PatchOption{client.DryRunAll, client.FieldOwner(manager(o, "kubectl"))}
	if o.forced {
		options = append(options, client.ForceOwnership)
	}
	return c.Patch(ctx, into, client.RawPatch(types.ApplyPatchType, data), options...)
}

// applyClientSide makes the patch from the object that was applied last, the file and what
// is there, so that a field that something else has set (paused, restartedAt) stays.
func (c *cluster) applyClientSide(ctx context.Context, wanted, live, into *unstructured.Unstructured, o planOptions) error {
	original := []byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	modified, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	current, err := json.Marshal(live)
	if err != nil {
		return err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	if err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	return c.Patch(ctx, into, client.RawPatch(types.MergePatchType, patch), client.DryRunAll, client.FieldOwner(manager(o, "kubectl-client-side-apply")))
}
