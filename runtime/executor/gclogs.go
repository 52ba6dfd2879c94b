// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// PodLogs are the log directories of pods.
type PodLogs interface {
	// List returns the pods' UIDs by the names of their directories.
	List() (map[string]types.UID, error)
	// Remove removes one directory and what is in it.
	Remove(dir string) error
}

// LogRoot is a folder with one log directory for each pod, named
// <namespace>_<name>_<uid>. (kubelet kuberuntime/helpers.go:BuildPodLogsDirectory)
type LogRoot string

// List returns the log directories; names of another form are left out.
func (r LogRoot) List() (map[string]types.UID, error) {
	entries, err := os.ReadDir(string(r))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read pod log directories: %w", err)
	}
	dirs := map[string]types.UID{}
	for _, entry := range entries {
		parts := strings.Split(entry.Name(), "_")
		if entry.IsDir() && len(parts) == 3 && parts[2] != "" {
			dirs[entry.Name()] = types.UID(parts[2])
		}
	}
	return dirs, nil
}

// Remove removes one log directory.
func (r LogRoot) Remove(dir string) error {
	if dir != filepath.Base(dir) || dir == "." || dir == ".." {
		return fmt.Errorf("%q is not a directory of pod logs", dir)
	}
	return os.RemoveAll(filepath.Join(string(r), dir))
}
