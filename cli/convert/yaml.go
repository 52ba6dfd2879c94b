// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Object is the ManagedWorkload without status and empty fields.
func (r *Result) Object() (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.ManagedWorkload)
	if err != nil {
		return nil, fmt.Errorf("write the ManagedWorkload: %w", err)
	}
	delete(object, "status")
	prune(object)
	return object, nil
}

// prune removes nulls and what is empty because of its Go type.
func prune(object map[string]any) {
	for name, value := range object {
		switch value := value.(type) {
		case nil:
			delete(object, name)
		case map[string]any:
			prune(value)
			if len(value) == 0 && (name == "resources" || name == "metadata") {
				delete(object, name)
			}
		case []any:
			for _, element := range value {
				if element, ok := element.(map[string]any); ok {
					prune(element)
				}
			}
		}
	}
}

// YAML is the ManagedWorkload with the notes as comments above it.
func (r *Result) YAML() (string, error) {
	object, err := r.Object()
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("write the ManagedWorkload: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Converted from the DaemonSet %s.\n", comment(r.ManagedWorkload.Name))
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "# %s\n", comment(n.String()))
	}
	b.Write(text)
	return b.String(), nil
}

// comment keeps a text on its line.
func comment(text string) string { return strings.Join(strings.Fields(text), " ") }

// String is the note in one line.
func (n Note) String() string {
	switch {
	case n.Path == "":
		return string(n.Class) + ": " + n.Text
	case n.Text == "":
		return string(n.Class) + ": " + n.Path
	}
	return string(n.Class) + ": " + n.Path + ": " + n.Text
}
