// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"
)

// The list is in step with the code.
func TestMutantsApply(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("%s stands there twice", m.name)
		}
		names[m.name] = true
		if _, err := m.overlay(root, t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}
