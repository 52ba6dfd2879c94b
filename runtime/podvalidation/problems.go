// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// problems are what is wrong with a template.
type problems struct{ list field.ErrorList }

func (p *problems) add(errs ...*field.Error) { p.list = append(p.list, errs...) }

// invalid adds what a check of apimachinery says of a value, if anything.
func (p *problems) invalid(path *field.Path, value any, messages ...string) {
	for _, message := range messages {
		p.add(field.Invalid(path, value, message))
	}
}

func (p *problems) forbidden(path *field.Path, why string) { p.add(field.Forbidden(path, why)) }

// required checks that a value is not empty, and reports whether it is there.
func (p *problems) required(path *field.Path, value string) bool {
	if value == "" {
		p.add(field.Required(path, ""))
	}
	return value != ""
}

// name checks a name that must be there.
func (p *problems) name(path *field.Path, value string, check func(string) []string) {
	if p.required(path, value) {
		p.invalid(path, value, check(value)...)
	}
}

// optionalName checks a name that may be missing.
func (p *problems) optionalName(path *field.Path, value string, check func(string) []string) {
	if value != "" {
		p.invalid(path, value, check(value)...)
	}
}

// unique checks that a value has not been seen, and notes it.
func (p *problems) unique(path *field.Path, value string, seen map[string]bool) {
	if seen[value] {
		p.add(field.Duplicate(path, value))
	}
	seen[value] = true
}

// oneOf checks that a value is one of some.
func oneOf[T ~string](p *problems, path *field.Path, value T, allowed ...T) {
	if value == "" {
		p.add(field.Required(path, ""))
	} else if !slices.Contains(allowed, value) {
		p.add(field.NotSupported(path, value, allowed))
	}
}

// optionalOneOf checks that a value is one of some, where there is one.
func optionalOneOf[T ~string](p *problems, path *field.Path, value *T, allowed ...T) {
	if value != nil && !slices.Contains(allowed, *value) {
		p.add(field.NotSupported(path, *value, allowed))
	}
}

// notNegative checks a number.
func notNegative[T int32 | int64](p *problems, path *field.Path, value T) {
	if value < 0 {
		p.invalid(path, value, "must be greater than or equal to 0")
	}
}

// withoutBacksteps checks that a path leads to nothing above where it begins.
func (p *problems) withoutBacksteps(path *field.Path, value string) {
	if slices.Contains(strings.Split(value, "/"), "..") {
		p.invalid(path, value, "must not contain '..'")
	}
}

// below checks that a path leads to something below where it begins.
func (p *problems) below(path *field.Path, value string) {
	if strings.HasPrefix(value, "/") {
		p.invalid(path, value, "must be a relative path")
	}
	p.withoutBacksteps(path, value)
}

// file checks the path of a file in a volume whose names that begin with two dots are taken.
func (p *problems) file(path *field.Path, value string) {
	p.below(path, value)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") && value != ".." {
		p.invalid(path, value, "must not start with '..'")
	}
}

// mode checks the permissions of a file.
func (p *problems) mode(path *field.Path, mode *int32) {
	const highest = 0o777
	if mode != nil && (*mode < 0 || *mode > highest) {
		p.invalid(path, *mode, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}
