// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPackageComments: each package outside hack says in doc.go
// what it decides and may touch.
func TestPackageComments(t *testing.T) {
	for _, p := range newLoader(t).packages {
		dir := strings.TrimPrefix(p.path, module+"/")
		if root, _, _ := strings.Cut(dir, "/"); p.path == module || root == "hack" || len(p.files) == 0 {
			continue
		}
		for _, file := range p.files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if commented := parsed.Doc != nil; commented != (filepath.Base(file) == "doc.go") {
				t.Errorf("%s/%s: has a package comment: %t", dir, filepath.Base(file), commented)
			}
		}
		if !slices.ContainsFunc(p.files, func(f string) bool { return filepath.Base(f) == "doc.go" }) {
			t.Errorf("%s has no doc.go", dir)
		}
	}
}
