// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs_test checks what the pages say against the code.
package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	page  = "kubelet-differences.md"
	kills = "kill-semantics.md"
)

// row is a line of a table: its cells.
type row []string

// tables returns the rows of a page's tables whose head begins with a word.
func tables(t *testing.T, page, head string) []row {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	columns := 0
	for line := range strings.Lines(string(text)) {
		inner, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !ok {
			columns = 0
			continue
		}
		cells := strings.Split(strings.TrimSuffix(inner, " |"), " | ")
		switch {
		case cells[0] == head:
			columns = len(cells)
		case columns == 0 || cells[0] == "---":
		case len(cells) != columns:
			t.Errorf("%d cells, want %d: %s", len(cells), columns, line)
		default:
			rows = append(rows, cells)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table of %q", page, head)
	}
	return rows
}

var testName = regexp.MustCompile("^`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`$")

// Every difference names tests that exist.
func TestDifferencesArePinned(t *testing.T) {
	for _, r := range tables(t, page, "difference") {
		for i, cell := range r {
			if cell == "" {
				t.Errorf("%s: column %d is empty", r[0], i+1)
			}
		}
		checkTests(t, r, "")
	}
}

// What the shim does where older kubelets did otherwise has a test, too, or says why not.
func TestOlderKubeletsArePinned(t *testing.T) {
	for _, r := range tables(t, "older-kubelets.md", "topic") {
		if !strings.HasPrefix(r[len(r)-1], "none: ") {
			checkTests(t, r, "")
		}
	}
}

// What each loop that serves many does about one bad item has a test.
func TestNeighboursArePinned(t *testing.T) {
	for _, r := range tables(t, "faults.md", "loop") {
		for i, cell := range r {
			if cell == "" {
				t.Errorf("%s: column %d is empty", r[0], i+1)
			}
		}
		checkTests(t, r, "")
	}
}

// checkTests checks that the tests in the last cell of a row exist, below a folder.
func checkTests(t *testing.T, r row, folder string) {
	t.Helper()
	for test := range strings.SplitSeq(r[len(r)-1], ", ") {
		name := testName.FindStringSubmatch(test)
		if name == nil || !strings.HasPrefix(name[1], folder) {
			t.Errorf("%s: %s is no test below %q", r[0], test, folder)
			continue
		}
		in := sources(t, filepath.Join("..", name[1], "*_test.go"))
		if !strings.Contains(in, "\nfunc "+name[2]+"(t *testing.T) {") {
			t.Errorf("%s: there is no %s in %s", r[0], name[2], name[1])
		}
	}
}

// declarations are where the comparisons declare differences: by folder, the
// files, and what stands around a name.
var declarations = map[string]struct {
	files string
	name  *regexp.Regexp
}{
	"hack/conformance": {"declared.go", regexp.MustCompile(`(?m)^\t[A-Z]\w+ = "(.+)"$`)},
	"hack/twin":        {"declared.go", regexp.MustCompile(`(?m)^\t\{"(.+)", (?:func\(|course\.)`)},
	"runtime/executor": {"*conformance_test.go", regexp.MustCompile(`(?m)^(?:const |\t)rule[A-Z]\w+ += "(.+)"$`)},
}

// The page has every name that a comparison declares, and no other.
func TestDeclaredDifferencesAreListed(t *testing.T) {
	differences := map[string]bool{}
	for _, r := range tables(t, page, "difference") {
		differences[r[0]] = true
	}
	listed := map[string]bool{}
	for _, r := range tables(t, page, "name") {
		for folder := range strings.SplitSeq(r[1], ", ") {
			listed[strings.Trim(folder, "`")+": "+strings.Trim(r[0], "`")] = true
		}
		if !differences[r[2]] && !strings.HasPrefix(r[2], "none: ") {
			t.Errorf("%s: there is no row %q", r[0], r[2])
		}
	}
	declared := map[string]bool{}
	for folder, d := range declarations {
		names := d.name.FindAllStringSubmatch(sources(t, filepath.Join("..", folder, d.files)), -1)
		if len(names) == 0 {
			t.Errorf("%s declares nothing", folder)
		}
		for _, name := range names {
			declared[folder+": "+name[1]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if !listed[name] {
			t.Errorf("not on the page: %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !declared[name] {
			t.Errorf("declared nowhere: %s", name)
		}
	}
}

// sources is the text of some files.
func sources(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
