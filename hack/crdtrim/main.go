// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crdtrim removes the descriptions of embedded core/v1 types from CRD
// files, in place. With them a CRD is larger than the annotation of a
// client-side kubectl apply may be; ours stay, for kubectl explain.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// embedded are the properties whose schema is a core/v1 type.
var embedded = map[string]bool{
	"template":              true,
	"containerStatuses":     true,
	"initContainerStatuses": true,
}

func main() {
	for _, file := range os.Args[1:] {
		if err := trim(file); err != nil {
			fmt.Fprintf(os.Stderr, "crdtrim: %v\n", err)
			os.Exit(1)
		}
	}
}

func trim(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return fmt.Errorf("parse CRD %s: %w", file, err)
	}
	walk(crd, false)
	out, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("encode CRD %s: %w", file, err)
	}
	if err := os.WriteFile(file, append([]byte("---\n"), out...), 0o644); err != nil {
		return fmt.Errorf("write CRD: %w", err)
	}
	return nil
}

// walk visits a schema; inside says that it is below an embedded type.
func walk(node any, inside bool) {
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			walk(v, inside)
		}
	case map[string]any:
		if _, isText := n["description"].(string); isText && inside {
			delete(n, "description")
		}
		properties, _ := n["properties"].(map[string]any)
		for name, v := range properties {
			walkProperty(v, inside, embedded[name])
		}
		for key, v := range n {
			if key != "properties" {
				walk(v, inside)
			}
		}
	}
}

// walkProperty keeps the description of an embedded property itself.
func walkProperty(node any, inside, isEmbedded bool) {
	schema, ok := node.(map[string]any)
	if !ok || inside || !isEmbedded {
		walk(node, inside)
		return
	}
	own, has := schema["description"]
	walk(node, true)
	if has {
		schema["description"] = own
	}
}
