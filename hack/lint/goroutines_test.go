// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guards are functions that a goroutine may consist of: they contain panics, or call one that does.
var guards = []string{
	"runtime/cri.keepFollowing", "runtime/executor.carryOut", "runtime/executor.inTurn", "runtime/logs.keep", "runtime/podworker.guardedRun", "runtime/probe.guardedLoop",
}

// containers are the functions that contain panics, of the shim and of the manager.
var containers = []string{"panics.Contain", "contain.Do", "contain.Call"}

// unguarded are the functions that start something else, with why a panic of it
// does not end the process.
var unguarded = map[string]string{
	"runtime/executor.seeThrough":   "waits, and ends a context",
	"runtime/logs.watch.run":        "closes a file",
	"runtime/podworker.attend":      "hands its panic to the step that waits for it",
	"runtime/podworker.saver.start": "each round is contained",
	"runtime/podworker.saver.write": "notes an error",
	"runtime/podworker.worker.run":  "each round of the announcer is contained",
}

// TestGoroutinesContainPanics: a panic in a goroutine that nothing guards ends the
// process, and with it the watch over all other workloads.
func TestGoroutinesContainPanics(t *testing.T) {
	root := filepath.Join("..", "..")
	used := map[string]bool{}
	for _, top := range []string{"runtime", "controllers"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(dir string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			g := newGoroutines(t, root, dir, func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
			for _, where := range g.find() {
				t.Errorf("%s: a goroutine without panics.Contain", where)
			}
			for name := range g.used {
				used[name] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range unguarded {
		if !used[name] {
			t.Errorf("%s starts nothing unguarded any more: take it off the list", name)
		}
	}
	for _, name := range guards {
		if !used[name] {
			t.Errorf("%s guards no goroutine any more: take it off the list", name)
		}
	}
}

func TestBareGoroutinesAreFound(t *testing.T) {
	dir := filepath.Join("testdata", "goroutines")
	g := newGoroutines(t, ".", dir, func(string) bool { return true })
	content, err := os.ReadFile(filepath.Join(dir, "goroutines.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := g.find()
	line := 0
	for text := range strings.Lines(string(content)) {
		line++
		want := strings.Contains(text, "// found")
		position := token.Position{Filename: filepath.Join(dir, "goroutines.go"), Line: line}
		got := slices.ContainsFunc(found, func(where string) bool { return strings.HasPrefix(where, position.String()+":") })
		if got != want {
			t.Errorf("%s is found: %t, want %t", position, got, want)
		}
	}
}

// goroutines looks for those that one package starts.
type goroutines struct {
	files     *token.FileSet
	dir       string // from the root of the repository
	functions []*ast.FuncDecl
	used      map[string]bool
}

func newGoroutines(t *testing.T, root, dir string, match func(name string) bool) *goroutines {
	t.Helper()
	short, err := filepath.Rel(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := &goroutines{files: token.NewFileSet(), dir: short, used: map[string]bool{}}
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || !match(name) {
			continue
		}
		file, err := parser.ParseFile(g.files, filepath.Join(dir, entry.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil {
				g.functions = append(g.functions, f)
			}
		}
	}
	return g
}

// find returns where goroutines start that nothing guards.
func (g *goroutines) find() []string {
	var found []string
	for _, f := range g.functions {
		ast.Inspect(f.Body, func(n ast.Node) bool {
			body, starts := started(n)
			if !starts || body != nil && (endsContext(body) || g.contains(body) || g.isGuard(body)) {
				return true
			}
			name := g.dir + "." + fullName(f)
			if _, listed := unguarded[name]; listed {
				g.used[name] = true
				return true
			}
			found = append(found, g.files.Position(n.Pos()).String())
			return true
		})
	}
	return found
}

// started is what runs in a goroutine that a node starts.
func started(n ast.Node) (body ast.Node, starts bool) {
	switch n := n.(type) {
	case *ast.GoStmt:
		if literal, ok := n.Call.Fun.(*ast.FuncLit); ok {
			return literal.Body, true
		}
		return n.Call, true
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 || s.Sel.Name != "Go" && s.Sel.Name != "AfterFunc" {
			return nil, false
		}
		last := n.Args[len(n.Args)-1]
		if literal, ok := last.(*ast.FuncLit); ok {
			return literal.Body, true
		}
		return last, true
	}
	return nil, false
}

// endsContext is whether nothing happens but that a context ends.
func endsContext(body ast.Node) bool {
	if block, ok := body.(*ast.BlockStmt); ok && len(block.List) == 1 {
		if statement, ok := block.List[0].(*ast.ExprStmt); ok {
			if call, ok := statement.X.(*ast.CallExpr); ok {
				body = call.Fun
			}
		}
	}
	name, ok := body.(*ast.Ident)
	return ok && name.Name == "cancel"
}

// contains is whether panics.Contain is called there, and not in a goroutine of it.
func (g *goroutines) contains(body ast.Node) bool {
	return calls(body, func(fun ast.Expr) bool {
		s, ok := fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		from, ok := s.X.(*ast.Ident)
		return ok && slices.Contains(containers, from.Name+"."+s.Sel.Name)
	})
}

// isGuard is whether a guard is called there that does contain panics.
func (g *goroutines) isGuard(body ast.Node) bool {
	return calls(body, func(fun ast.Expr) bool {
		name := ""
		switch fun := fun.(type) {
		case *ast.Ident:
			name = fun.Name
		case *ast.SelectorExpr:
			name = fun.Sel.Name
		}
		full := g.dir + "." + name
		if !slices.Contains(guards, full) {
			return false
		}
		g.used[full] = true
		return slices.ContainsFunc(g.functions, func(f *ast.FuncDecl) bool { return f.Name.Name == name && (g.contains(f.Body) || g.isGuard(f.Body)) })
	})
}

func calls(body ast.Node, match func(fun ast.Expr) bool) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if _, starts := started(n); starts && n != body {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok {
			found = found || match(call.Fun)
		}
		return !found
	})
	return found
}

// fullName is a function's name with that of the type it belongs to.
func fullName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	name, ok := receiver.(*ast.Ident)
	if !ok {
		return f.Name.Name
	}
	return name.Name + "." + f.Name.Name
}
