// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kustomizegen writes what kustomize has to know about ManagedWorkloads into the
// folder that is its argument: schema.json says which lists are merged by which key, and
// configuration.yaml where other objects are named and where labels belong.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kustomizegen FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kustomizegen:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	schema, err := schemaFile()
	if err != nil {
		return err
	}
	configuration, err := configurationFile()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"schema.json": schema, "configuration.yaml": configuration} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
