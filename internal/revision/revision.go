// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	differ "gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Spec returns the spec of a revision, but for its number, from the user's template and what
// admission made of it. User gives the user's template back exactly, or Spec fails.
func Spec(user, admitted *corev1.PodTemplateSpec) (v1alpha1.ManagedWorkloadRevisionSpec, error) {
	spec := v1alpha1.ManagedWorkloadRevisionSpec{Template: *admitted.DeepCopy()}
	from, err := json.Marshal(admitted)
	if err != nil {
		return spec, fmt.Errorf("encode the admitted template: %w", err)
	}
	to, err := json.Marshal(user)
	if err != nil {
		return spec, fmt.Errorf("encode the user's template: %w", err)
	}
	if bytes.Equal(from, to) {
		return spec, nil
	}
	for _, compute := range []func(from, to []byte) ([]differ.Operation, error){difference, replacement} {
		if spec.UserPatch, err = encode(compute(from, to)); err != nil {
			return spec, err
		}
		if gives(&spec, to) {
			return spec, nil
		}
	}
	return spec, errors.New("no patch of the admitted template gives the user's template back")
}

// difference has what differs, and may be inexact: the library compares numbers as floats, which
// round integers above 2^53.
func difference(from, to []byte) ([]differ.Operation, error) {
	return differ.CreatePatch(from, to)
}

// replacement has all of the user's template, exactly.
func replacement(_, to []byte) ([]differ.Operation, error) {
	return []differ.Operation{differ.NewOperation("replace", "", json.RawMessage(to))}, nil
}

func encode(operations []differ.Operation, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("compare the templates: %w", err)
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return "", fmt.Errorf("encode the difference of the templates: %w", err)
	}
	return string(patch), nil
}

// gives reports whether the user's template of a spec has this encoding.
func gives(spec *v1alpha1.ManagedWorkloadRevisionSpec, want []byte) bool {
	user, err := User(spec)
	if err != nil {
		return false
	}
	got, err := json.Marshal(user)
	return err == nil && bytes.Equal(got, want)
}

// User returns the user's template of a revision, with its defaults filled in. It fails where
// the patch was damaged so that it cannot be applied.
func User(spec *v1alpha1.ManagedWorkloadRevisionSpec) (*corev1.PodTemplateSpec, error) {
	if spec.UserPatch == "" {
		return spec.Template.DeepCopy(), nil
	}
	patch, err := jsonpatch.DecodePatch([]byte(spec.UserPatch))
	if err != nil {
		return nil, fmt.Errorf("read userPatch: %w", err)
	}
	// Spec writes no others: copies can grow without bound, and the library panics on some tests.
	for _, op := range patch {
		if kind := op.Kind(); kind != "add" && kind != "remove" && kind != "replace" {
			return nil, fmt.Errorf("userPatch has the operation %q, want add, remove or replace", kind)
		}
	}
	data, err := json.Marshal(&spec.Template)
	if err != nil {
		return nil, fmt.Errorf("encode the admitted template: %w", err)
	}
	if data, err = patch.Apply(data); err != nil {
		return nil, fmt.Errorf("apply userPatch: %w", err)
	}
	user := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal(data, user); err != nil {
		return nil, fmt.Errorf("decode the user's template: %w", err)
	}
	return user, nil
}
