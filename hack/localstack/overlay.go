// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"errors"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// overlay is a kustomization of a folder with what this machine needs; there may be no
// component and no patch.
type overlay struct {
	base       string
	components []string
	patches    Patches
}

// Patches are those of a kustomization.
type Patches []Patch

// Patch is a patch of a kustomization: JSON Patch in YAML.
type Patch struct {
	Target PatchTarget `json:"target"`
	Patch  string      `json:"patch"`
}

// Text is what a kustomization says to apply the patches.
func (p Patches) Text() string {
	data, err := yaml.Marshal(map[string]Patches{"patches": p})
	if err != nil {
		panic(err) // texts alone
	}
	return string(data)
}

// PatchTarget names what is patched. Without a name it is each of the kind.
type PatchTarget struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// WriteKustomization writes a kustomization into a folder. The base and the components are
// folders.
func WriteKustomization(dir, base string, components []string, patches Patches) error {
	// kustomize takes no absolute paths.
	relative := make([]string, 0, len(components)+1)
	for _, folder := range append([]string{base}, components...) {
		folder, err := filepath.Abs(folder)
		if err == nil {
			folder, err = filepath.Rel(dir, folder)
		}
		if err != nil {
			return err
		}
		relative = append(relative, folder)
	}
	data, err := yaml.Marshal(map[string]any{"resources": relative[:1], "components": relative[1:], "patches": patches})
	if err := errors.Join(err, os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kustomization.yaml"), data, 0o644)
}

// write writes the overlay into a folder, and returns the folder to apply: the base itself
// if it needs nothing.
func (o overlay) write(dir string) (string, error) {
	if len(o.components)+len(o.patches) == 0 {
		return o.base, nil
	}
	return dir, WriteKustomization(dir, o.base, o.components, o.patches)
}
