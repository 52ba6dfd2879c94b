// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Production has every difference from the kubelet, the comparison with the
// kubelet has none.
func TestDifferencesOfProductionAndComparison(t *testing.T) {
	all := reflect.ValueOf(plan.AllDifferences())
	for i := range all.NumField() {
		if !all.Field(i).Bool() {
			t.Errorf("%s is off in production", all.Type().Field(i).Name)
		}
	}
	for folder, want := range map[string]struct {
		given  string
		takers []string
	}{
		"../shim":                     {"plan.AllDifferences", []string{"cri.Config", "executor.Config"}},
		"../podworker":                {"plan.AllDifferences", []string{"plan.Input", "status.Input"}},
		"../preview":                  {"plan.AllDifferences", []string{"cri.Config", "plan.Input", "status.Input"}},
		"../../hack/conformance/shim": {"none", []string{"cri.Config", "executor.Config", "plan.Input"}},
	} {
		seen := map[string]bool{}
		for where, given := range differencesGiven(t, folder, seen) {
			if given != want.given {
				t.Errorf("%s is given %s, want %s", where, given, want.given)
			}
		}
		if takers := slices.Sorted(maps.Keys(seen)); !slices.Equal(takers, want.takers) {
			t.Errorf("%s gives differences to %v, want %v", folder, takers, want.takers)
		}
	}
}

// takers are the types that take differences.
var takers = map[string]bool{"plan.Input": true, "executor.Config": true, "cri.Config": true, "status.Input": true}

// differencesGiven returns what each literal of a taker in a folder is given, by
// its place.
func differencesGiven(t *testing.T, folder string, seen map[string]bool) map[string]string {
	t.Helper()
	given, files := map[string]string{}, token.NewFileSet()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok || !takers[nameOf(literal.Type)] {
				return true
			}
			seen[nameOf(literal.Type)] = true
			given[files.Position(literal.Pos()).String()+" "+nameOf(literal.Type)] = differencesOf(literal)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return given
}

func differencesOf(literal *ast.CompositeLit) string {
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok || nameOf(pair.Key) != "Differences" {
			continue
		}
		if call, ok := pair.Value.(*ast.CallExpr); ok {
			return nameOf(call.Fun)
		}
		return "something else"
	}
	return "none"
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	}
	return ""
}
