// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	shared "github.com/managedworkload/managedworkload/hack/mutants/mutant"
)

// The list is in step with the code.
func TestMutantsApply(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	list := make([]shared.Mutant, len(mutants))
	for i, m := range mutants {
		list[i] = shared.Mutant(m)
	}
	for _, err := range shared.Check(list, root, t.TempDir()) {
		t.Error(err)
	}
	if _, _, err := shared.Together(list, root, t.TempDir()); err != nil {
		t.Error(err)
	}
}
