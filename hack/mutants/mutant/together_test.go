// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/hack/mutants/mutant"
)

const program = `package main

import "fmt"

const least = 1

type pair[T any] struct{ a, b T }

func (p *pair[T]) swap() {
	p.a, p.b = p.b, p.a
}

func count(to int) (n int, err error) {
	defer func() { n++ }()
outer:
	for i := range to {
		if i == 2 {
			break outer
		}
		n += least
	}
	return n, nil
}

func one() int { return 1 }

func main() {
	p := &pair[int]{1, 2}
	p.swap()
	n, _ := count(4)
	fmt.Print(p.a, p.b, " ", n, " ", one())
}
`

// One build makes each mistake that is chosen, and none when none is.
func TestTogether(t *testing.T) {
	root := write(t, map[string]string{"main.go": program, "go.mod": "module example.com/m\n\ngo 1.24\n"})
	list := []mutant.Mutant{
		{Name: "not swapped", Package: "pkg", In: "pair.swap", Old: "p.b, p.a", New: "p.a, p.b"},
		{Name: "counts to three", Package: "pkg", In: "count", Old: "i == 2", New: "i == 3"},
		{Name: "another constant", Package: "pkg", In: "least", Old: "1", New: "2"},
		{Name: "counts at the beginning", Package: "pkg", In: "count", Old: "defer func() { n++ }()", New: ""},
		{Name: "two", Package: "pkg", In: "one", Old: "int { return 1", New: "int { return 2; return 1"},
		{Name: "another signature", Package: "pkg", In: "one", Old: "int { return 1", New: "int64 { return 2"},
	}
	overlay, apart, err := mutant.Together(list, root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2, 5}, apart); diff != "" {
		t.Errorf("those that need a build of their own: %s", diff)
	}
	binary := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", binary, ".")
	build.Dir = filepath.Join(root, "pkg")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for choice, want := range map[string]string{"": "2 1 3 1", "0": "1 2 3 1", "1": "2 1 4 1", "3": "2 1 2 1", "4": "2 1 3 2"} {
		run := exec.Command(binary)
		run.Env = append(os.Environ(), mutant.Variable+"="+choice)
		if out, err := run.Output(); err != nil || string(out) != want {
			t.Errorf("mistake %q: %q, %v, want %q", choice, out, err, want)
		}
	}
}
