// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lines are where the fields of a document stand.
type lines struct{ root *yaml.Node }

// linesOf finds the one document with content. What is not YAML has no lines.
func linesOf(data []byte) lines {
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	for {
		document := &yaml.Node{}
		if err := decoder.Decode(document); err != nil {
			return lines{}
		}
		if len(document.Content) == 1 && document.Content[0].Kind == yaml.MappingNode {
			return lines{document.Content[0]}
		}
	}
}

// Locate joins errors about the fields of the object in a file, each with its line.
func Locate(data []byte, errs field.ErrorList) error { return linesOf(data).fields(errs) }

// fields joins errors, each with its line.
func (l lines) fields(errs field.ErrorList) error {
	located := make([]error, 0, len(errs))
	for _, err := range errs {
		located = append(located, l.located(err.Field, err))
	}
	return errors.Join(located...)
}

// namesField finds the path in what strict decoding says.
var namesField = regexp.MustCompile(`field "([^"]+)"`)

// fault is an error about a field.
type fault struct {
	path string
	error
}

// locate gives a fault, and the errors of strict decoding, their lines; all others have theirs,
// or none.
func (l lines) locate(err error) error {
	if f, ok := errors.AsType[fault](err); ok {
		return l.located(f.path, f.error)
	}
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return err
	}
	located := make([]error, 0, len(strict.Errors()))
	for _, err := range strict.Errors() {
		path := ""
		if found := namesField.FindStringSubmatch(err.Error()); found != nil {
			path = found[1]
		}
		located = append(located, l.located(path, err))
	}
	return errors.Join(located...)
}

func (l lines) located(path string, err error) error {
	if line := l.of(path); line > 0 {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// of is the line of a field, or of the nearest one above it that is there; 0 if there is
// none.
func (l lines) of(path string) int {
	if l.root == nil || path == "" {
		return 0
	}
	line, at := l.root.Line, l.root
	for _, step := range steps(path) {
		name, value := child(at, step)
		if value == nil {
			break
		}
		line, at = name.Line, value
	}
	return line
}

// steps splits a path such as spec.containers[0].image, or with ["a.b"] for a key.
func steps(path string) []string {
	path = strings.NewReplacer("[", ".", "]", "", `"`, "").Replace(path)
	return strings.Split(path, ".")
}

// child is what stands below a node under a name or an index, and where that is named.
func child(of *yaml.Node, step string) (name, value *yaml.Node) {
	if of.Kind == yaml.AliasNode {
		of = of.Alias
	}
	switch of.Kind { //nolint:exhaustive // the others have nothing below them
	case yaml.MappingNode:
		for i := 0; i+1 < len(of.Content); i += 2 {
			if of.Content[i].Value == step {
				return of.Content[i], of.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(of.Content) {
			return of.Content[i], of.Content[i]
		}
	}
	return nil, nil
}
