// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"go/types"
	"slices"
)

// followGrace finds the variables and fields of a package that hold a grace period
// that was decided or recorded, one after another until there are no more.
func (c *checker) followGrace(files []*ast.File) {
	for before := -1; before != len(c.grace); {
		before = len(c.grace)
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if len(n.Lhs) == len(n.Rhs) {
						for i := range n.Lhs {
							c.assigned(n.Lhs[i], n.Rhs[i])
						}
					}
				case *ast.ValueSpec:
					for i := range n.Values {
						c.assigned(n.Names[i], n.Values[i])
					}
				case *ast.KeyValueExpr: // a field, if its key is a name
					c.assigned(n.Key, n.Value)
				}
				return true
			})
		}
	}
}

func (c *checker) assigned(to, value ast.Expr) {
	if !c.isGrace(value) {
		return
	}
	var name *ast.Ident
	switch to := to.(type) {
	case *ast.Ident:
		name = to
	case *ast.SelectorExpr:
		name = to.Sel
	default:
		return
	}
	for _, object := range []types.Object{c.info.Defs[name], c.info.Uses[name]} {
		if object != nil {
			c.grace[object] = true
		}
	}
}

// isGrace is whether an expression is a grace period in seconds, decided or recorded,
// or made from one: by arithmetic, a conversion, a pointer, a variable or a field.
func (c *checker) isGrace(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return c.grace[c.info.Uses[e]]
	case *ast.StarExpr:
		return c.isGrace(e.X)
	case *ast.UnaryExpr:
		return c.isGrace(e.X)
	case *ast.BinaryExpr:
		return c.info.Types[e].Type.Underlying() != types.Typ[types.Bool] && (c.isGrace(e.X) || c.isGrace(e.Y))
	case *ast.CallExpr:
		return (c.info.Types[e.Fun].IsType() || c.chooses(e)) && slices.ContainsFunc(e.Args, c.isGrace)
	case *ast.SelectorExpr:
		selection := c.info.Selections[e]
		return c.grace[c.info.Uses[e.Sel]] || selection != nil && e.Sel.Name == "Seconds" &&
			(isNamed(deref(selection.Recv()), plan, "Grace") || isNamed(deref(selection.Recv()), apiPath, "KillGrace"))
	}
	return false
}

// chooses is whether a call is one of min, max or cmp.Compare.
func (c *checker) chooses(call *ast.CallExpr) bool {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return c.info.Types[f].IsBuiltin() && (f.Name == "min" || f.Name == "max")
	case *ast.SelectorExpr:
		object := c.info.Uses[f.Sel]
		return object != nil && object.Pkg() != nil && object.Pkg().Path() == "cmp" && object.Name() != "Or"
	}
	return false
}
