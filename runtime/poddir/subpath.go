// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/runtime/expansion"
)

// checkSubPath refuses what leads out of a volume by its text alone.
func checkSubPath(subPath string) error {
	if filepath.IsAbs(subPath) {
		return fmt.Errorf("error SubPath `%s` must not be an absolute path", subPath)
	}
	if slices.Contains(strings.Split(subPath, "/"), "..") {
		return fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", subPath)
	}
	return nil
}

// expandSubPath expands subPathExpr; a name without a value is an error.
// (container/helpers.go:ExpandContainerVolumeMounts)
func expandSubPath(expr string, values map[string]string) (string, error) {
	var missing []string
	expanded := expansion.Expand(expr, func(name string) (string, bool) {
		value := values[name]
		if value == "" && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		return value, true
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		return "", fmt.Errorf("missing value for %s", strings.Join(missing, ", "))
	}
	return expanded, nil
}
