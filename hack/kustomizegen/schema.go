// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	reference     = "#/definitions/"
	podTemplate   = "io.k8s.api.core.v1.PodTemplateSpec"
	objectMeta    = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	kindExtension = "x-kubernetes-group-version-kind"
)

// mergeExtensions are what a strategic merge patch goes by.
var mergeExtensions = []string{"x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-list-map-keys"}

// node is a part of a schema that leads to lists that are merged.
type node map[string]any

// schemaFile returns the schema that kustomize has built in, reduced to the lists that it
// merges, with ManagedWorkload added. The built-in kinds have to be in it: a schema of a
// kustomization takes the place of the built-in one for the whole build.
func schemaFile() ([]byte, error) {
	builtIn := openapi.Schema().Definitions
	if _, has := builtIn[podTemplate]; !has {
		return nil, fmt.Errorf("kustomize has no schema of %s", podTemplate)
	}
	r := reducer{definitions: builtIn, leads: map[string]bool{}}
	for changed := true; changed; {
		changed = r.spread()
	}
	all := map[string]node{}
	for name := range r.leads {
		all[name] = r.reduced(name)
	}
	all["dev.managedworkload."+v1alpha1.GroupVersion.Version+".ManagedWorkload"] = managedWorkload()
	return encode(all)
}

func managedWorkload() node {
	to := func(name string) node { return node{"$ref": reference + name} }
	return node{
		"properties": node{
			"metadata": to(objectMeta),
			"spec":     node{"properties": node{"template": to(podTemplate)}},
		},
		kindExtension: []any{node{"group": v1alpha1.GroupVersion.Group, "version": v1alpha1.GroupVersion.Version, "kind": "ManagedWorkload"}},
	}
}

// reducer finds the definitions that lead to merged lists.
type reducer struct {
	definitions spec.Definitions
	leads       map[string]bool
}

// spread adds the definitions that lead to a merged list by what is known so far, and
// reports whether there were any.
func (r *reducer) spread() bool {
	changed := false
	for name, d := range r.definitions {
		if !r.leads[name] && len(r.properties(&d)) > 0 {
			r.leads[name], changed = true, true
		}
	}
	return changed
}

func (r *reducer) reduced(name string) node {
	d := r.definitions[name]
	n := node{"properties": r.properties(&d)}
	if kinds, has := d.Extensions[kindExtension]; has {
		n[kindExtension] = kinds
	}
	return n
}

// properties returns those of a schema that are, or lead to, a merged list.
func (r *reducer) properties(s *spec.Schema) node {
	kept := node{}
	for name := range s.Properties {
		p := s.Properties[name]
		if n := r.property(&p); n != nil {
			kept[name] = n
		}
	}
	return kept
}

func (r *reducer) property(s *spec.Schema) node {
	if s.Ref.String() != "" {
		if !r.leads[target(s)] {
			return nil
		}
		return node{"$ref": s.Ref.String()}
	}
	n := node{}
	for _, key := range mergeExtensions {
		if value, has := s.Extensions[key]; has && s.Extensions[mergeExtensions[0]] != nil {
			n[key] = value
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		if items := r.property(s.Items.Schema); items != nil {
			n["items"] = items
		} else if len(n) > 0 {
			n["items"] = node{}
		}
	}
	if len(n) == 0 {
		return nil
	}
	n["type"] = "array"
	return n
}

func target(s *spec.Schema) string {
	return strings.TrimPrefix(s.Ref.String(), reference)
}

// encode writes one definition a line: small, and with readable differences.
func encode(definitions map[string]node) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{\"definitions\": {\n")
	names := slices.Sorted(maps.Keys(definitions))
	for i, name := range names {
		data, err := json.Marshal(definitions[name])
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		fmt.Fprintf(&b, "%q: %s", name, data)
		if i < len(names)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}}\n")
	return b.Bytes(), nil
}
