// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// place is where code was found: bytes of a file.
type place struct {
	path     string
	source   []byte
	from, to int
}

// find returns all places of the package in dir where In has Old.
func (m Mutant) find(dir string) ([]place, error) {
	old := tokens([]byte(m.Old))
	if len(old) == 0 {
		return nil, errors.New("no code to change is named")
	}
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, fmt.Errorf("list the files of the package: %w", err)
	}
	declared := false
	var found []place
	for _, name := range pkg.GoFiles {
		path := filepath.Join(dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the source: %w", err)
		}
		nodes, err := declarations(source, m.In)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		for _, node := range nodes {
			declared = true
			// The positions of a file that is parsed alone begin at 1.
			begin := int(node.Pos()) - 1
			for _, at := range occurrences(tokens(source[begin:node.End()-1]), old) {
				found = append(found, place{path, source, begin + at[0], begin + at[1]})
			}
		}
	}
	if !declared {
		return nil, fmt.Errorf("%s declares no %s", m.Package, m.In)
	}
	return found, nil
}

// declarations returns what a file declares with a name: functions, methods, types, variables
// and constants.
func declarations(source []byte, name string) ([]ast.Node, error) {
	if !bytes.Contains(source, []byte(name[strings.LastIndex(name, ".")+1:])) {
		return nil, nil // parsing takes long
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var nodes []ast.Node
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if functionName(decl) == name {
				nodes = append(nodes, decl)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch {
				case !slices.Contains(specNames(spec), name):
				case decl.Lparen.IsValid():
					nodes = append(nodes, spec)
				default:
					nodes = append(nodes, decl)
				}
			}
		}
	}
	return nodes, nil
}

// functionName returns the name of a function, with that of the receiver's type before it.
func functionName(f *ast.FuncDecl) string {
	name := f.Name.Name
	if f.Recv == nil {
		return name
	}
	// The first name in it is the type's: of "*Keeper[K]" it is Keeper.
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if receiver, ok := n.(*ast.Ident); ok && name == f.Name.Name {
			name = receiver.Name + "." + name
		}
		return true
	})
	return name
}

func specNames(spec ast.Spec) []string {
	var names []string
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		names = append(names, spec.Name.Name)
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// lexeme is a token and where it is.
type lexeme struct {
	text     string
	from, to int
}

// tokens returns the tokens of code, without what depends on line breaks: semicolons at the end
// of a line, and commas before a closing bracket.
func tokens(code []byte) []lexeme {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(code))
	s.Init(file, code, nil, 0)
	var list []lexeme
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return list
		}
		if tok == token.SEMICOLON && text != ";" {
			continue
		}
		if !tok.IsLiteral() && !tok.IsKeyword() {
			text = tok.String()
		}
		if last := len(list) - 1; last >= 0 && list[last].text == "," &&
			(tok == token.RPAREN || tok == token.RBRACE || tok == token.RBRACK) {
			list = list[:last]
		}
		from := file.Offset(pos)
		list = append(list, lexeme{text, from, from + len(text)})
	}
}

// occurrences returns from where to where in bytes code has the tokens of old.
func occurrences(code, old []lexeme) [][2]int {
	var found [][2]int
	for i := range len(code) - len(old) + 1 {
		there := code[i : i+len(old)]
		if slices.EqualFunc(there, old, func(a, b lexeme) bool { return a.text == b.text }) {
			found = append(found, [2]int{there[0].from, there[len(there)-1].to})
		}
	}
	return found
}
