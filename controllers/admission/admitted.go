// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	differ "gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Patch is the JSON Patch that makes the admitted template out of the user's; "" when
// they are the same.
func Patch(user, admitted *corev1.PodTemplateSpec) (string, error) {
	before, err := json.Marshal(user)
	if err != nil {
		return "", fmt.Errorf("encode the user's template: %w", err)
	}
	after, err := json.Marshal(admitted)
	if err != nil {
		return "", fmt.Errorf("encode the admitted template: %w", err)
	}
	operations, err := differ.CreatePatch(before, after)
	if err != nil {
		return "", fmt.Errorf("compare the templates: %w", err)
	}
	if len(operations) == 0 {
		return "", nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return "", fmt.Errorf("encode what admission changed: %w", err)
	}
	return string(patch), nil
}

// Admitted is the admitted template of a revision.
func Admitted(revision *v1alpha1.ManagedWorkloadRevision) (*corev1.PodTemplateSpec, error) {
	if revision.Spec.AdmittedPatch == "" {
		return revision.Spec.Template.DeepCopy(), nil
	}
	before, err := json.Marshal(&revision.Spec.Template)
	if err != nil {
		return nil, fmt.Errorf("encode the template of revision %q: %w", revision.Name, err)
	}
	patch, err := jsonpatch.DecodePatch([]byte(revision.Spec.AdmittedPatch))
	if err != nil {
		return nil, fmt.Errorf("read the patch of revision %q: %w", revision.Name, err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, fmt.Errorf("apply the patch of revision %q: %w", revision.Name, err)
	}
	admitted := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal(after, admitted); err != nil {
		return nil, fmt.Errorf("decode the admitted template of revision %q: %w", revision.Name, err)
	}
	return admitted, nil
}
