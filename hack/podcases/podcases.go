// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcases is a table of Pods that are valid, and of Pods that no API server accepts. Tests of
// the shim's own validation read it, and a test that asks a real API server about the same Pods.
package podcases

import (
	_ "embed"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

//go:embed cases.yaml
var table []byte

// Case is a Pod.
type Case struct {
	Name      string         `json:"name"`
	Metadata  map[string]any `json:"metadata"`
	Spec      map[string]any `json:"spec"`
	Container map[string]any `json:"container"`
	// Want are the paths of the fields for which the Pod is refused, none if it is valid.
	Want []string `json:"want"`
	// API are those that the API server names, nil if they are the same. An empty list says that another part of
	// the API server refuses the Pod first, for an object that is not there.
	API *[]string `json:"api"`
	// Dropped says that an API server drops the field, as its feature is off by default.
	Dropped bool `json:"dropped"`
}

// All returns the table.
func All() ([]Case, error) {
	var cases []Case
	if err := yaml.UnmarshalStrict(table, &cases); err != nil {
		return nil, fmt.Errorf("read the table of Pods: %w", err)
	}
	return cases, nil
}

// Template returns the metadata and the spec of the Pod.
func (c Case) Template() (*corev1.PodTemplateSpec, error) {
	container := map[string]any{"name": "c", "image": "a:1"}
	maps.Copy(container, c.Container)
	spec := map[string]any{"containers": []any{container}}
	maps.Copy(spec, c.Spec)
	text, err := yaml.Marshal(map[string]any{"metadata": c.Metadata, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("case %q: %w", c.Name, err)
	}
	template := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict(text, template); err != nil {
		return nil, fmt.Errorf("case %q: %w", c.Name, err)
	}
	return template, nil
}
