// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package expansion

import (
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// Expand replaces $(NAME) in text by what lookup returns. $$ is a dollar sign;
// what is no reference stays, and so does a reference that lookup does not know.
// (third_party/forked/golang/expansion:Expand)
func Expand(text string, lookup func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		dollar := strings.IndexByte(text, '$')
		if dollar < 0 || dollar+1 == len(text) {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:dollar])
		text = text[dollar+1:]
		text = text[expandOne(&out, text, lookup):]
	}
}

// expandOne writes what stands for the dollar sign before text and returns how
// many bytes of text it took.
func expandOne(out *strings.Builder, text string, lookup func(string) (string, bool)) int {
	switch text[0] {
	case '$':
		out.WriteByte('$')
		return 1
	case '(':
		end := strings.IndexByte(text, ')')
		if end < 0 {
			out.WriteString("$(")
			return 1
		}
		if value, ok := lookup(text[1:end]); ok {
			out.WriteString(value)
		} else {
			out.WriteString("$" + text[:end+1])
		}
		return end + 1
	default:
		// A byte that is no UTF-8 comes out as the replacement character.
		r, size := utf8.DecodeRuneInString(text)
		out.WriteByte('$')
		out.WriteRune(r)
		return size
	}
}

// All expands each of several texts; nil without any.
func All(texts []string, lookup func(name string) (string, bool)) []string {
	if len(texts) == 0 {
		return nil
	}
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		out = append(out, Expand(text, lookup))
	}
	return out
}

// Static expands a probe's command from the literal values of env only.
// (container/helpers.go:ExpandContainerCommandOnlyStatic)
func Static(command []string, env []corev1.EnvVar) []string {
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	return All(command, In(values))
}

// In looks names up in a map.
func In(values map[string]string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}
