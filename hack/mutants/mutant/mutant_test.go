// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/managedworkload/managedworkload/hack/mutants/mutant"
)

func TestCheck(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		list       []mutant.Mutant
		wantErrors int
	}{
		"applies":             {[]mutant.Mutant{{"a", "a.go", "one", "three"}}, 0},
		"text is gone":        {[]mutant.Mutant{{"a", "a.go", "four", "three"}}, 1},
		"text is there twice": {[]mutant.Mutant{{"a", "a.go", "two", "three"}}, 1},
		"file is gone":        {[]mutant.Mutant{{"a", "b.go", "one", "three"}}, 1},
		"same name twice":     {[]mutant.Mutant{{"a", "a.go", "one", "2"}, {"a", "a.go", "one", "3"}}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if errs := mutant.Check(test.list, root, t.TempDir()); len(errs) != test.wantErrors {
				t.Errorf("errors: %v, want %d", errs, test.wantErrors)
			}
		})
	}
}

func TestOverlayLeavesTheSource(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	path := filepath.Join(root, "a.go")
	if err := os.WriteFile(path, []byte("one two"), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := mutant.Mutant{Name: "a", File: "a.go", Old: "two", New: "three"}.Overlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	if source, _ := os.ReadFile(path); string(source) != "one two" {
		t.Errorf("source: %q", source)
	}
	if mutated, _ := os.ReadFile(filepath.Join(filepath.Dir(overlay), "mutated.go")); string(mutated) != "one three" {
		t.Errorf("mutant: %q", mutated)
	}
}
