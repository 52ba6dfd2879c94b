// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutant makes deliberate mistakes in copies of source files, to show
// that tests notice them. The working tree stays as it is: the go command reads
// the changed copy through an overlay.
package mutant

import (
	"fmt"
	"os"
	"path/filepath"
)

// Mutant is a deliberate mistake: in the declaration In of Package, Old becomes New.
type Mutant struct {
	// Name says what is wrong with the mutant, in words.
	Name string
	// Package is a directory relative to the root of the repository.
	Package string
	// In names a function, a method ("Manager.look"), or a type, a variable or a
	// constant of the package. Any of its files may declare it.
	In string
	// Old is code that occurs in In exactly once. Spaces, line breaks and comments do
	// not matter.
	Old, New string
}

// Overlay writes the file with the mistake into dir, and beside it the overlay
// for the go command that puts it in the place of the right one. root is the root
// of the repository. It returns the overlay's path, and an error if the mistake
// cannot be made because the code has changed.
func (m Mutant) Overlay(root, dir string) (string, error) {
	at, err := m.only(root)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, "mutated.go")
	code := string(at.source[:at.from]) + m.New + string(at.source[at.to:])
	if err := os.WriteFile(mutated, []byte(code), 0o600); err != nil {
		return "", fmt.Errorf("write the mutant: %w", err)
	}
	return writeOverlay(dir, map[string]string{at.path: mutated})
}

// only returns the one place where In has Old.
func (m Mutant) only(root string) (place, error) {
	found, err := m.find(filepath.Join(root, m.Package))
	if err != nil {
		return place{}, err
	}
	if len(found) != 1 {
		return place{}, fmt.Errorf("%s of %s contains the code to change %d times, want once", m.In, m.Package, len(found))
	}
	return found[0], nil
}

// String returns where the mistake is made.
func (m Mutant) String() string { return m.Package + "." + m.In }

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
