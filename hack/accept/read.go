// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// podTemplate is a template as its file has it, with fields that no type knows.
type podTemplate struct {
	name  string
	raw   map[string]any
	typed corev1.PodTemplateSpec
}

// read reads the templates of a folder in the order of their names.
func read(dir string) ([]podTemplate, error) {
	if dir == "" {
		return nil, errors.New("name a folder with templates: -dir, or DIR= of make")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var templates []podTemplate
	for _, entry := range entries {
		extension := filepath.Ext(entry.Name())
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, extension) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name())) // #nosec G304 -- the user names the folder
		if err != nil {
			return nil, err
		}
		t, err := parse(strings.TrimSuffix(entry.Name(), extension), data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		templates = append(templates, t)
	}
	if len(templates) == 0 {
		return nil, fmt.Errorf("%s has no .yaml, .yml or .json file", dir)
	}
	return templates, nil
}

func parse(name string, data []byte) (podTemplate, error) {
	t := podTemplate{name: name}
	if err := yaml.Unmarshal(data, &t.raw); err != nil {
		return t, err
	}
	spec, ok := t.raw["spec"].(map[string]any)
	if !ok {
		return t, errors.New("there is no spec: the file has to hold what stands under spec.template")
	}
	if _, whole := spec["template"]; whole {
		return t, fmt.Errorf("it is a whole %v: the file has to hold what stands under its spec.template", cmp.Or(t.raw["kind"], any("object")))
	}
	return t, yaml.Unmarshal(data, &t.typed)
}
