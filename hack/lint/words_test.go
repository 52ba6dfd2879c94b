// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unclear are phrases that readers stumble over, with what to write instead.
var unclear = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(no|some|any)body\b`), "name who or what, or use the passive voice"},
	{regexp.MustCompile(`(?i)\btells? whether\b`), "reports whether"},
	{regexp.MustCompile(`(?i)\btells? the (whole )?story\b`), "describes"},
	{regexp.MustCompile(`(?i)\banew\b`), "again"},
	{regexp.MustCompile(`(?i)\b(go|goes|went) on\b`), "continues"},
	{regexp.MustCompile(`(?i)\b(containers?|pods?|programs?|mounts?) of others\b`), "say whose: not managed by this shim"},
	{regexp.MustCompile(`(?i)\ball the same\b`), "still"},
	{regexp.MustCompile(`(?i)\bwhatever becomes of\b`), "whether or not"},
	{regexp.MustCompile(`(?i)\btells? of\b`), "mentions, reports"},
	{regexp.MustCompile(`(?i)\btold\b`), "the verb that says how: reported, notified, asked"},
	{regexp.MustCompile(`, for (it|they|there|nothing|what) `), "because"},
}

// unread are folders whose texts are not checked.
var unread = []string{"testdata", "bin"}

// TestWords: comments and texts of the product, and the pages, have none of the
// unclear phrases.
func TestWords(t *testing.T) {
	root := filepath.Join("..", "..")
	checked := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || slices.Contains(unread, name)) {
				return fs.SkipDir
			}
			return nil
		}
		var texts []passage
		switch {
		case strings.HasSuffix(name, ".md") || name == "NOTICE":
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts = []passage{{1, string(content)}}
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			texts = passagesOf(t, path, nil)
		}
		checked += len(texts)
		for _, f := range unclearIn(path, texts) {
			t.Errorf("%s: %s", f.position, f.what)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 1000 {
		t.Errorf("%d texts are checked", checked)
	}
}

// The rule finds the phrases in comments and in texts, also across lines.
func TestUnclearWordsAreFound(t *testing.T) {
	source := `package p

// f tells
// whether it runs.
func f() string { return "Nobody waits" + "it is created again" }

// g continues.
func g() { nobody() }
`
	found := unclearIn("p.go", passagesOf(t, "p.go", source))
	if len(found) != 2 || found[0].position != "p.go:3" || found[1].position != "p.go:5" {
		t.Errorf("found %v, want one each at lines 3 and 5", found)
	}
}

// passage is a text and the line on which it begins.
type passage struct {
	line int
	text string
}

// passagesOf returns the comments and string literals of a Go file.
func passagesOf(t *testing.T, path string, source any) []passage {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var texts []passage
	add := func(n ast.Node, text string) {
		texts = append(texts, passage{files.Position(n.Pos()).Line, text})
	}
	for _, c := range parsed.Comments {
		add(c, c.Text())
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			add(l, l.Value)
		}
		return true
	})
	return texts
}

// unclearIn returns the unclear phrases in texts of a file. A phrase may stand on two
// lines.
func unclearIn(path string, texts []passage) []finding {
	var found []finding
	for _, p := range texts {
		oneLine := strings.ReplaceAll(p.text, "\n", " ")
		for _, u := range unclear {
			for _, at := range u.phrase.FindAllStringIndex(oneLine, -1) {
				found = append(found, finding{
					position: fmt.Sprintf("%s:%d", path, p.line+strings.Count(p.text[:at[0]], "\n")),
					what:     fmt.Sprintf("%q: %s", oneLine[at[0]:at[1]], u.instead),
				})
			}
		}
	}
	return found
}
