// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutant makes deliberate mistakes in copies of source files, to show
// that tests notice them. The working tree stays as it is: the go command reads
// the changed copy through an overlay.
package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is a deliberate mistake: in File, Old becomes New.
type Mutant struct {
	// Name says what is wrong with the mutant, in words.
	Name string
	// File is relative to the root of the repository.
	File string
	// Old occurs in File exactly once.
	Old, New string
}

// Overlay writes the file with the mistake into dir, and beside it the overlay
// for the go command that puts it in the place of the right one. root is the root
// of the repository. It returns the overlay's path, and an error if the mistake
// cannot be made because the code has changed.
func (m Mutant) Overlay(root, dir string) (string, error) {
	path := filepath.Join(root, m.File)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the source: %w", err)
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		return "", fmt.Errorf("%s contains the text to change %d times, want once", m.File, n)
	}
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.Old, m.New, 1)), 0o600); err != nil {
		return "", fmt.Errorf("write the mutant: %w", err)
	}
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		return "", fmt.Errorf("encode the overlay: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}

// Check says what is wrong with a list: names that occur twice, and mistakes that
// cannot be made any more. dir is a directory to write to.
func Check(list []Mutant, root, dir string) []error {
	var errs []error
	seen := map[string]bool{}
	for _, m := range list {
		if seen[m.Name] {
			errs = append(errs, fmt.Errorf("%s: the name occurs twice", m.Name))
		}
		seen[m.Name] = true
		if _, err := m.Overlay(root, dir); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
		}
	}
	return errs
}
