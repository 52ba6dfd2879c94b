// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"go/types"
	"slices"
)

// followGrace finds the variables of a declaration that hold a decided grace period,
// one after another until there are no more.
func (c *checker) followGrace(declaration ast.Decl) {
	for before := -1; before != len(c.grace); {
		before = len(c.grace)
		ast.Inspect(declaration, func(n ast.Node) bool {
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
			}
			return true
		})
	}
}

func (c *checker) assigned(to, value ast.Expr) {
	name, ok := to.(*ast.Ident)
	if !ok || !c.isGrace(value) {
		return
	}
	for _, object := range []types.Object{c.info.Defs[name], c.info.Uses[name]} {
		if object != nil {
			c.grace[object] = true
		}
	}
}

// isGrace is whether an expression is a decided grace period in seconds, or made from
// one: by arithmetic, a conversion, a pointer or a variable.
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
		return selection != nil && e.Sel.Name == "Seconds" && isNamed(deref(selection.Recv()), plan, "Grace")
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
