// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/managedworkload/managedworkload/hack/mutants/mutant"
)

// The lists are in step with the code.
func TestMutantsApply(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range mutant.Check(mutants(), root, t.TempDir()) {
		t.Error(err)
	}
	if _, _, err := mutant.Together(mutants(), root, t.TempDir()); err != nil {
		t.Error(err)
	}
}
