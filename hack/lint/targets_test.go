// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var benchmark = regexp.MustCompile(`(?m)^func Benchmark`)

// Every benchmark is in a target of the Makefile: what no one runs no one reads.
func TestBenchmarksHaveATarget(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{}
	for line := range bytes.Lines(makefile) {
		if strings.Contains(string(line), "go test") && strings.Contains(string(line), "-bench ") {
			for field := range strings.FieldsSeq(string(line)) {
				measured[field] = true
			}
		}
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path) // #nosec G304 -- a file of this repository
		if err != nil || !benchmark.Match(text) {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if name := "./" + filepath.ToSlash(dir); !measured[name] {
			t.Errorf("no target of the Makefile runs the benchmarks of %s", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
