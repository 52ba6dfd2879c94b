// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package declared reads from the sources which metrics the manager and the shim declare, so that
// documentation and tests know those that have no value yet, too.
package declared

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Metric is one that a program declares.
type Metric struct {
	Name, Help string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string
	// Buckets are the upper bounds of a histogram's, as they are written.
	Buckets []string
	// File is where, relative to the root.
	File string
}

// Manager and Shim are where the programs declare theirs.
var (
	Manager = []string{"controllers"}
	Shim    = []string{"runtime"}
)

// Read returns the metrics that the packages below folders of a root declare, by name.
func Read(root string, folders ...string) ([]Metric, error) {
	var found []Metric
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			of, err := readFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			for i := range of {
				of[i].File = filepath.ToSlash(name)
			}
			found = append(found, of...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the metrics of %s: %w", folder, err)
		}
	}
	slices.SortFunc(found, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// readFile finds the calls of prometheus.New... in a file.
func readFile(path string) (found []Metric, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lists := stringLists(file)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || err != nil {
			return err == nil
		}
		name := constructor(call)
		m := Metric{}
		switch {
		case name == "NewDesc" && len(call.Args) == 4:
			m.Name, m.Help, m.Labels = text(call.Args[0]), text(call.Args[1]), labels(call.Args[2], lists)
			m.Type = "gauge"
			if strings.HasSuffix(m.Name, "_total") {
				m.Type = "counter"
			}
		case kindOf(name) != "" && len(call.Args) > 0:
			m = fromOptions(call, lists)
			m.Type = kindOf(name)
		default:
			return true
		}
		if m.Name == "" || m.Help == "" {
			err = fmt.Errorf("%s: a metric whose name or help is not written as a string", path)
			return false
		}
		found = append(found, m)
		return true
	})
	return found, err
}

// constructor is the function of package prometheus that is called.
func constructor(call *ast.CallExpr) string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if pkg, ok := selector.X.(*ast.Ident); !ok || pkg.Name != "prometheus" {
		return ""
	}
	return selector.Sel.Name
}

func kindOf(constructor string) string {
	kind, found := strings.CutPrefix(constructor, "New")
	kind = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(kind, "Func"), "Vec"))
	if !found || !slices.Contains([]string{"counter", "gauge", "histogram"}, kind) {
		return ""
	}
	return kind
}

func fromOptions(call *ast.CallExpr, lists map[string][]string) (m Metric) {
	options, ok := call.Args[0].(*ast.CompositeLit)
	if !ok {
		return m
	}
	for _, element := range options.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := field.Key.(*ast.Ident); key.Name {
		case "Name":
			m.Name = text(field.Value)
		case "Help":
			m.Help = text(field.Value)
		case "Buckets":
			if list, ok := field.Value.(*ast.CompositeLit); ok {
				for _, bound := range list.Elts {
					if number, ok := bound.(*ast.BasicLit); ok {
						m.Buckets = append(m.Buckets, number.Value)
					}
				}
			}
		}
	}
	if len(call.Args) > 1 && strings.HasSuffix(constructor(call), "Vec") {
		m.Labels = labels(call.Args[1], lists)
	}
	return m
}

// text is that of a string, also of one in parts.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value) // otherwise it is no string
		return s
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	}
	return ""
}

func labels(e ast.Expr, lists map[string][]string) (names []string) {
	switch e := e.(type) {
	case *ast.Ident:
		return lists[e.Name]
	case *ast.CompositeLit:
		for _, element := range e.Elts {
			names = append(names, text(element))
		}
	}
	return names
}

// stringLists are the variables of a file that are lists of strings.
func stringLists(file *ast.File) map[string][]string {
	lists := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					if list, ok := spec.Values[i].(*ast.CompositeLit); ok {
						lists[name.Name] = labels(list, nil)
					}
				}
			}
		}
		return true
	})
	return lists
}
