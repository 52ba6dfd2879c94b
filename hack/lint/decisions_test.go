// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module  = "github.com/managedworkload/managedworkload"
	apiPath = module + "/api/v1alpha1"
	plan    = module + "/runtime/plan"
)

// carriers are the functions outside runtime/plan that read a grace period or a
// hook of a spec or a record, with why that is no decision about a kill.
var carriers = map[string]string{
	"api/template.Pod":                     "the Pod that a NodeWorkload stands for",
	"api/template.SetDefaults":             "the defaults of a Pod template",
	"api/template.RemoveDefaults":          "the defaults of a Pod template",
	"api/template.setContainerDefaults":    "the defaults of a Pod template",
	"api/template.removeContainerDefaults": "the defaults of a Pod template",
	"controllers/admission.negativeGrace":  "validates the template as the API server does for a Pod",
	"controllers/killrequest.entry":        "what a KillRequest says, for the shim of the node",
	"controllers/fleet.ShareOf":            "what the manager remembers of a NodeWorkload, to request a deletion and to report its grace period",
	"controllers/fleet.demandsOf":          "what the manager remembers of a template, for the same",
	"runtime/cri.sandboxAnnotations":       "records with the sandbox",
	"runtime/cri.kubeletAnnotations":       "records with the container",
	"runtime/cri.addSandbox":               "the pod that records describe",
	"runtime/cri.addContainers":            "the pod that records describe",
	"runtime/podworker.updated":            "the pod as the object's deletion has it",
	"runtime/podworker.withRecordedPod":    "the pod as the object's deletion has it",
	"runtime/manifest.checkTimes":          "validates the spec as the API server does",
	"runtime/podvalidation.lifetime":       "validates the template as the API server does for a Pod",
	"runtime/podvalidation.probe":          "validates the template as the API server does for a Pod",
	"runtime/podvalidation.lifecycle":      "validates the template as the API server does for a Pod",
	"runtime/preview.recordOf":             "what a shim would have recorded",
}

// callers are the functions outside runtime/plan that may call those of a decided kill,
// by their names there.
var callers = map[string][]string{
	"Stop":          {"runtime/executor.run", "runtime/preview.killStep"},
	"StopTimeout":   nil,
	"PreStop":       {"runtime/executor.newRecord"}, // the record names a hook that is skipped
	"PreStopWithin": {"runtime/executor.newRecord", "runtime/executor.runPreStop", "runtime/preview.killStep"},
}

// comparers are the functions outside runtime/plan that compare grace periods, with
// why that is no decision.
var comparers = map[string]string{
	"runtime/podworker.killTook": "counts what share of a grace period a kill has used",
	"runtime/preview.graceCell":  "shows what StopContainer is given where it is not the grace period",
}

// stops are the functions outside runtime/plan that may use StopContainer.
var stops = map[string]string{
	"runtime/cri.StopContainer": "the request itself",
	"runtime/executor.call":     "the only call, with a plan.Stop",
}

// finding is a place that breaks the rule.
type finding struct{ position, what string }

// TestDecisionsStandInPlan: outside runtime/plan nothing builds a trigger or the
// source of a grace period, compares or chooses grace periods, or picks a hook,
// and StopContainer is used once, called with a plan.Stop. What is not seen: a grace
// period on its way through parameters, results and fields of other packages, and
// points in time that were made from one.
func TestDecisionsStandInPlan(t *testing.T) {
	l := newLoader(t)
	var found []finding
	used, stopped := map[string]bool{}, 0
	for _, p := range l.packages {
		if p.path == plan || strings.HasPrefix(p.path, plan+"/") || p.path == apiPath || strings.HasPrefix(p.path, module+"/hack/") {
			continue
		}
		c := l.check(t, p.path, p.files)
		found = append(found, c.findings...)
		for name := range c.used {
			used[name] = true
		}
		stopped += c.stops
	}
	if stopped != len(stops) {
		t.Errorf("StopContainer is used %d times, want %d: once by each of %v", stopped, len(stops), stops)
	}
	for _, f := range found {
		t.Errorf("%s: %s: decide it in runtime/plan", f.position, f.what)
	}
	for _, list := range []map[string]string{carriers, comparers, stops} {
		for name := range list {
			if !used[name] {
				t.Errorf("%s does not do any more what it is listed for: take it off the list", name)
			}
		}
	}
}

// The rule finds each kind of violation.
func TestDecisionsOutsidePlanAreFound(t *testing.T) {
	l := newLoader(t)
	file := filepath.Join("testdata", "violations.go")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, found := map[int]bool{}, map[int]bool{}
	for i, line := range strings.Split(string(source), "\n") {
		if strings.Contains(line, "// found") {
			want[i+1] = true
		}
	}
	c := l.check(t, module+"/runtime/violations", []string{file})
	for _, f := range c.findings {
		var line int
		if _, err := fmt.Sscanf(f.position[strings.Index(f.position, ":")+1:], "%d", &line); err != nil {
			t.Fatal(err)
		}
		if !want[line] {
			t.Errorf("%s: %s, which is allowed", f.position, f.what)
		}
		found[line] = true
	}
	for line := range want {
		if !found[line] {
			t.Errorf("%s:%d is not found", file, line)
		}
	}
}

// check looks at one package.
func (l *loader) check(t *testing.T, path string, names []string) *checker {
	t.Helper()
	c := &checker{
		loader: l, short: strings.TrimPrefix(path, module+"/"), used: map[string]bool{}, grace: map[types.Object]bool{},
		info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
	}
	var parsed []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(l.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	config := types.Config{Importer: l.importer}
	if _, err := config.Check(path, l.files, parsed, c.info); err != nil {
		t.Fatalf("type-check %s: %v", path, err)
	}
	c.followGrace(parsed)
	for _, file := range parsed {
		for _, declaration := range file.Decls {
			c.function = "variables"
			if f, ok := declaration.(*ast.FuncDecl); ok {
				c.function = f.Name.Name
			}
			c.stopped = false
			c.walk(declaration)
		}
	}
	return c
}

// checker collects what a package does that only runtime/plan may do.
type checker struct {
	*loader
	short, function string
	info            *types.Info
	parents         []ast.Node
	findings        []finding
	stopped         bool // the function uses StopContainer
	stops           int  // uses of StopContainer in all functions
	used            map[string]bool
	// grace are the variables and fields that hold a grace period.
	grace map[types.Object]bool
}

func (c *checker) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			c.parents = c.parents[:len(c.parents)-1]
			return true
		}
		switch n := n.(type) {
		case ast.Expr:
			c.value(n)
		}
		switch n := n.(type) {
		case *ast.SelectorExpr:
			c.selector(n)
		case *ast.BinaryExpr:
			c.comparison(n)
		case *ast.CallExpr:
			c.call(n)
		}
		c.parents = append(c.parents, n)
		return true
	})
}

func (c *checker) report(n ast.Node, format string, args ...any) {
	c.findings = append(c.findings, finding{c.position(n), fmt.Sprintf(format, args...)})
}

func (c *checker) position(n ast.Node) string {
	position := c.files.Position(n.Pos())
	if name, err := filepath.Rel(c.root, position.Filename); err == nil && filepath.IsAbs(position.Filename) {
		position.Filename = name
	}
	return position.String()
}

// value finds constants of the kinds that plan alone builds, but where they are
// only compared or looked up.
func (c *checker) value(e ast.Expr) {
	constant := c.info.Types[e]
	if constant.Value == nil || !isNamed(constant.Type, apiPath, "KillTrigger", "GraceSource") || constant.Value.ExactString() == `""` {
		return
	}
	if _, isSelector := c.parent(0).(*ast.SelectorExpr); isSelector {
		return // the name in package.Name
	}
	switch parent := c.parent(0).(type) {
	case *ast.CaseClause:
		return
	case *ast.BinaryExpr:
		if parent.Op == token.EQL || parent.Op == token.NEQ {
			return
		}
	case *ast.KeyValueExpr:
		if literal, ok := c.parent(1).(*ast.CompositeLit); ok && parent.Key == e {
			if _, isMap := c.info.Types[literal].Type.Underlying().(*types.Map); isMap {
				return
			}
		}
	}
	c.report(e, "builds the %s %s", constant.Type.(*types.Named).Obj().Name(), constant.Value.ExactString())
}

// fields whose reading is the beginning of a decision: grace periods and hooks.
var fields = map[string][]string{
	"TerminationGracePeriodSeconds": nil, "DeletionGracePeriodSeconds": nil,
	"PreStop": {"Lifecycle", "Recorded"},
}

func (c *checker) selector(s *ast.SelectorExpr) {
	c.caller(s)
	c.stop(s)
	if selection := c.info.Selections[s]; selection != nil && selection.Kind() == types.FieldVal {
		owners, known := fields[s.Sel.Name]
		if known && (owners == nil || isNamed(deref(selection.Recv()), "", owners...)) && !c.isWritten(s) {
			c.allowed(carriers, s, "reads "+s.Sel.Name)
		}
		return
	}
	object := c.info.Uses[s.Sel]
	if object == nil || object.Pkg() == nil || object.Pkg().Path() != plan {
		return
	}
	switch object.Name() {
	case "MinimumGracePeriod", "ContainerGrace", "TerminationGrace":
		c.report(s, "uses plan.%s", object.Name())
	}
}

// isWritten is whether a field is only assigned.
func (c *checker) isWritten(s *ast.SelectorExpr) bool {
	assign, ok := c.parent(0).(*ast.AssignStmt)
	return ok && slices.Contains(assign.Lhs, ast.Expr(s))
}

// allowed reports what is done by a function that a list does not name.
func (c *checker) allowed(list map[string]string, n ast.Node, what string) {
	name := c.short + "." + c.function
	if _, ok := list[name]; ok {
		c.used[name] = true
		return
	}
	c.report(n, "%s (in %s)", what, name)
}

// stop finds uses of StopContainer: more than one in a function, calls and method
// values too.
func (c *checker) stop(s *ast.SelectorExpr) {
	if s.Sel.Name != "StopContainer" {
		return
	}
	c.stops++
	if c.stopped {
		c.report(s, "uses StopContainer a second time")
		return
	}
	c.stopped = true
	c.allowed(stops, s, "uses StopContainer")
}

// caller finds the use of a function of runtime/plan by one that may not.
func (c *checker) caller(s *ast.SelectorExpr) {
	object, ok := c.info.Uses[s.Sel].(*types.Func)
	if !ok || object.Pkg() == nil || object.Pkg().Path() != plan {
		return
	}
	if receiver := object.Signature().Recv(); receiver != nil && !isNamed(deref(receiver.Type()), plan, "Kill") {
		return
	}
	name := c.short + "." + c.function
	if allowed, limited := callers[object.Name()]; limited && !slices.Contains(allowed, name) {
		c.report(s, "uses plan.%s (in %s)", object.Name(), name)
	}
}

// comparison finds grace periods that are compared.
func (c *checker) comparison(b *ast.BinaryExpr) {
	switch b.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
	default:
		return
	}
	if c.isGrace(b.X) || c.isGrace(b.Y) {
		c.allowed(comparers, b, "compares grace periods")
	}
}

// call finds calls of StopContainer without a plan.Stop, and calls that choose between
// grace periods.
func (c *checker) call(call *ast.CallExpr) {
	if c.chooses(call) && slices.ContainsFunc(call.Args, c.isGrace) {
		c.report(call, "chooses between grace periods")
	}
	if c.info.Types[call.Fun].IsType() && isNamed(c.info.Types[call.Fun].Type, apiPath, "KillTrigger", "GraceSource") {
		c.report(call, "converts to %s", c.info.Types[call.Fun].Type)
		return
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "StopContainer" {
		return
	}
	for _, argument := range call.Args[min(1, len(call.Args)):] {
		from, ok := argument.(*ast.SelectorExpr)
		if !ok || !isNamed(deref(c.info.Types[from.X].Type), plan, "Stop") {
			c.report(call, "calls StopContainer with what is no plan.Stop")
			return
		}
	}
}

// parent returns the n-th node above the one that is visited.
func (c *checker) parent(n int) ast.Node {
	if n >= len(c.parents) {
		return nil
	}
	return c.parents[len(c.parents)-1-n]
}

func deref(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// isNamed is whether a type has one of the names; an empty path is any package.
func isNamed(t types.Type, path string, names ...string) bool {
	named, ok := t.(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return false
	}
	return cmp.Or(path, named.Obj().Pkg().Path()) == named.Obj().Pkg().Path() && slices.Contains(names, named.Obj().Name())
}
