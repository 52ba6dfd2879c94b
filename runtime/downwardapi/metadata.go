// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package downwardapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Metadata resolves a field path below metadata. An error says that there is no such
// field. (pkg/fieldpath/fieldpath.go:ExtractFieldPathAsString)
func Metadata(of *metav1.ObjectMeta, path string) (string, error) {
	switch path {
	case "metadata.name":
		return of.Name, nil
	case "metadata.namespace":
		return of.Namespace, nil
	case "metadata.uid":
		return string(of.UID), nil
	case "metadata.labels":
		return formatMap(of.Labels), nil
	case "metadata.annotations":
		return formatMap(of.Annotations), nil
	}
	return subscripted(of, path)
}

// subscripted resolves metadata.labels['key'] and metadata.annotations['key'].
func subscripted(of *metav1.ObjectMeta, path string) (string, error) {
	field, rest, found := strings.Cut(path, "['")
	key, closed := strings.CutSuffix(rest, "']")
	if !found || !closed {
		return "", fmt.Errorf("unsupported fieldPath: %v", path)
	}
	switch field {
	case "metadata.labels":
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(problems, ";"))
		}
		return of.Labels[key], nil
	case "metadata.annotations":
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(problems, ";"))
		}
		return of.Annotations[key], nil
	default:
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
}

// formatMap writes one key="value" a line, sorted. (fieldpath.go:FormatMap)
func formatMap(values map[string]string) string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	lines := make([]string, 0, len(keys))
	for _, key := range keys {
		lines = append(lines, key+"="+strconv.Quote(values[key]))
	}
	return strings.Join(lines, "\n")
}
