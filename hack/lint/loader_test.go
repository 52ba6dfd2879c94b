// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type pkg struct {
	path  string
	files []string
}

// loader type-checks packages of the module from source, and what they import
// from what the compiler wrote.
type loader struct {
	root     string
	files    *token.FileSet
	importer types.Importer
	packages []pkg
}

func newLoader(t *testing.T) *loader {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps",
		"-f", `{{.ImportPath}}|{{.Export}}|{{.Dir}}|{{range .GoFiles}}{{.}} {{end}}`, "./...")
	list.Dir = filepath.Join("..", "..")
	var problems bytes.Buffer
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the packages: %v\n%s", err, &problems)
	}
	root, err := filepath.Abs(list.Dir)
	if err != nil {
		t.Fatal(err)
	}
	l := &loader{root: root, files: token.NewFileSet()}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		exports[fields[0]] = fields[1]
		if fields[0] != module && !strings.HasPrefix(fields[0], module+"/") {
			continue
		}
		p := pkg{path: fields[0]}
		for name := range strings.FieldsSeq(fields[3]) {
			p.files = append(p.files, filepath.Join(fields[2], name))
		}
		l.packages = append(l.packages, p)
	}
	l.importer = importer.ForCompiler(l.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return l
}
