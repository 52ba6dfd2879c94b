// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Variable is the environment variable that chooses a mistake of Together, by its place in
// the list. While it is not set, the program makes none.
const Variable = "MW_MUTANT"

// errApart reports that a mistake needs a build of its own: it is not in the body of a function.
var errApart = errors.New("the mistake is not in the body of a function")

// Together writes into dir changed copies of files that make any mistake of a list, and the
// overlay for the go command that puts them in the place of the right ones: one build then
// serves all. root is the root of the repository. It returns the overlay's path, and apart,
// the places in the list of those that need a build of their own.
func Together(list []Mutant, root, dir string) (overlay string, apart []int, err error) {
	files := map[string][]insertion{}
	for i, m := range list {
		path, put, err := m.branch(root, strconv.Itoa(i))
		switch {
		case errors.Is(err, errApart):
			apart = append(apart, i)
		case err != nil:
			return "", nil, fmt.Errorf("%s: %w", m.Name, err)
		default:
			files[path] = append(files[path], put)
		}
	}
	replace := map[string]string{}
	put := func(path, code string) error {
		replace[path] = filepath.Join(dir, fmt.Sprintf("together%d.go", len(replace)))
		return os.WriteFile(replace[path], []byte(code), 0o600)
	}
	for path, insertions := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			return "", nil, fmt.Errorf("read the source: %w", err)
		}
		if err := put(path, insert(string(source), insertions)); err != nil {
			return "", nil, fmt.Errorf("write the mutants: %w", err)
		}
		switchOf := filepath.Join(filepath.Dir(path), "zz_mutant.go")
		if replace[switchOf] != "" {
			continue
		}
		code := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar zzMutant = os.Getenv(%q)\n", insertions[0].pkg, Variable)
		if err := put(switchOf, code); err != nil {
			return "", nil, fmt.Errorf("write the mutants: %w", err)
		}
	}
	overlay, err = writeOverlay(dir, replace)
	return overlay, apart, err
}

// insertion is code to put into a file of a package.
type insertion struct {
	pkg, code string
	at        int
}

func insert(source string, insertions []insertion) string {
	slices.SortStableFunc(insertions, func(a, b insertion) int { return cmp.Compare(b.at, a.at) })
	for _, i := range insertions {
		source = source[:i.at] + i.code + source[i.at:]
	}
	return source
}

// branch returns the code that makes the mistake where its name is chosen, and where it belongs:
// the function that makes it begins with a call of a copy of its body with the mistake in it.
func (m Mutant) branch(root, name string) (path string, put insertion, err error) {
	at, err := m.only(root)
	if err != nil {
		return "", insertion{}, err
	}
	right, f, err := function(at.source, at.from)
	if err != nil {
		return "", insertion{}, err
	}
	source := string(at.source)
	wrong, changed, err := function([]byte(source[:at.from]+m.New+source[at.to:]), at.from)
	if err != nil {
		return "", insertion{}, err
	}
	code := source[:at.from] + m.New + source[at.to:]
	if signature(source, f) != signature(code, changed) || recovers(changed) {
		return "", insertion{}, errApart
	}
	results := ""
	if f.Type.Results != nil {
		results = source[f.Type.Results.Pos()-1 : f.Type.Results.End()-1]
	}
	body := code[changed.Body.Lbrace-1 : changed.Body.Rbrace]
	call := fmt.Sprintf("func() %s %s()", results, body)
	if results != "" {
		call = "return " + call
	} else {
		call += "; return"
	}
	if right.Name.Name != wrong.Name.Name {
		return "", insertion{}, errApart
	}
	return at.path, insertion{
		pkg: right.Name.Name, at: int(f.Body.Lbrace), code: fmt.Sprintf(" if zzMutant == %q { %s }\n", name, call),
	}, nil
}

// function returns the function of a file in whose body a place is.
func function(source []byte, at int) (*ast.File, *ast.FuncDecl, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, nil, fmt.Errorf("parse: %w", err)
	}
	for _, decl := range file.Decls {
		// The positions of a file that is parsed alone begin at 1.
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil && int(f.Pos())-1 <= at && at < int(f.End())-1 {
			return file, f, nil
		}
	}
	return nil, nil, errApart
}

// recovers reports whether a function calls recover itself, which works in deferred functions only, and
// not in a copy that they call.
func recovers(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == "recover" {
			found = true
		}
		_, literal := n.(*ast.FuncLit)
		return !literal
	})
	return found
}

// signature is the code of a function before its body.
func signature(source string, f *ast.FuncDecl) string { return source[f.Pos()-1 : f.Body.Lbrace-1] }

// writeOverlay writes an overlay for the go command, and returns its path.
func writeOverlay(dir string, replace map[string]string) (string, error) {
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encode the overlay: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}
