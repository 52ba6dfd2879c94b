// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/hack/mutants/mutant"
)

const source = `package p

const most, least = 3, 1

// look looks.
func look(a, b int) int {
	// The larger one counts.
	if a > b { // as said
		return a
	}
	return b
}

type pair[T any] struct{ a, b T }

func (p *pair[T]) look(b T) bool { return any(p.a) == any(b) && any(p.a) == any(p.b) }
`

// write makes a repository of the files of one package, named "pkg".
func write(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "pkg"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, "pkg", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// mutated returns the file that a mutant changes and what of it.
func mutated(t *testing.T, m mutant.Mutant, root string) (file, code string) {
	t.Helper()
	overlay, err := m.Overlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(overlay)
	if err != nil {
		t.Fatal(err)
	}
	var content struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &content); err != nil || len(content.Replace) != 1 {
		t.Fatalf("overlay %s: %v", data, err)
	}
	for original, changed := range content.Replace {
		text, err := os.ReadFile(changed)
		if err != nil {
			t.Fatal(err)
		}
		file, code = filepath.Base(original), string(text)
	}
	return file, code
}

func TestOverlay(t *testing.T) {
	tests := map[string]struct {
		in, old, new string
		// from becomes to in the source.
		from, to string
	}{
		"function":           {"look", "return b", "return a", "\treturn b", "\treturn a"},
		"over comments":      {"look", "if a > b { return a }", "", "if a > b { // as said\n\t\treturn a\n\t}", ""},
		"method":             {"pair.look", "any(p.b)", "any(b)", "any(p.b)", "any(b)"},
		"signature":          {"pair.look", "bool {", "bool { return true;", "(b T) bool {", "(b T) bool { return true;"},
		"constant":           {"least", "= 3, 1", "= 3, 2", "3, 1", "3, 2"},
		"type":               {"pair", "a, b T", "b, a T", "a, b T", "b, a T"},
		"comma of two lines": {"look", "look(a, b int,\n) int {", "look(b, a int) int {", "look(a, b int) int {", "look(b, a int) int {"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := write(t, map[string]string{"a.go": source, "a_test.go": source})
			m := mutant.Mutant{Name: name, Package: "pkg", In: test.in, Old: test.old, New: test.new}
			_, got := mutated(t, m, root)
			if diff := cmp.Diff(strings.Replace(source, test.from, test.to, 1), got); diff != "" {
				t.Error(diff)
			}
			if left, _ := os.ReadFile(filepath.Join(root, "pkg", "a.go")); string(left) != source {
				t.Errorf("the source has changed: %s", left)
			}
		})
	}
}

// A mistake stays what it is when code moves, is formatted in another way or gets comments.
func TestOverlayFollowsTheCode(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"another file": {map[string]string{"a.go": "package p\n", "b.go": source}, "b.go"},
		"other lines": {map[string]string{"a.go": strings.NewReplacer(
			"a > b", "a >\n\t\tb", "(a, b int)", "(\n\ta, b int,\n)", " // as said", "").Replace(source)}, "a.go"},
		"comments":       {map[string]string{"a.go": strings.ReplaceAll(source, "a > b {", "a > /* more */ b { // than b\n")}, "a.go"},
		"another system": {map[string]string{"a.go": source, "b_plan9.go": source}, "a.go"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := mutant.Mutant{Name: name, Package: "pkg", In: "look", Old: "look(a, b int) int { if a > b {", New: "look(a, b int) int { if a < b {"}
			file, got := mutated(t, m, write(t, test.files))
			if file != test.want || !strings.Contains(got, "if a < b {") {
				t.Errorf("%s became\n%s", file, got)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		list []mutant.Mutant
		want []string
	}{
		"applies":             {[]mutant.Mutant{{"a", "pkg", "look", "a > b", "a < b"}}, nil},
		"code is gone":        {[]mutant.Mutant{{"a", "pkg", "look", "a >= b", "a"}}, []string{"a: look of pkg contains the code to change 0 times, want once"}},
		"code is elsewhere":   {[]mutant.Mutant{{"a", "pkg", "look", "p.a", "p.b"}}, []string{"a: look of pkg contains the code to change 0 times, want once"}},
		"code is there twice": {[]mutant.Mutant{{"a", "pkg", "pair.look", "any(p.a)", "p.b"}}, []string{"a: pair.look of pkg contains the code to change 2 times, want once"}},
		"code only begins so": {[]mutant.Mutant{{"a", "pkg", "look", "retur", "p.b"}}, []string{"a: look of pkg contains the code to change 0 times, want once"}},
		"no code":             {[]mutant.Mutant{{"a", "pkg", "look", "// as said", ""}}, []string{"a: no code to change is named"}},
		"function is gone":    {[]mutant.Mutant{{"a", "pkg", "see", "a", "b"}}, []string{"a: pkg declares no see"}},
		"same name twice": {[]mutant.Mutant{{"a", "pkg", "look", "a > b", "true"}, {"a", "pkg", "look", "a > b", "false"}},
			[]string{"a: the name occurs twice"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range mutant.Check(test.list, write(t, map[string]string{"a.go": source}), t.TempDir()) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	list := []mutant.Mutant{{"a mistake", "gone", "look", "a", "b"}}
	if errs := mutant.Check(list, t.TempDir(), t.TempDir()); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "a mistake: ") {
		t.Errorf("package that is gone: %v", errs)
	}
}
