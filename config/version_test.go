// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// version is what the newest heading of CHANGELOG.md says: between releases, that of a
// build to which none is given.
func version(t *testing.T) string {
	t.Helper()
	newest := submatch(t, "CHANGELOG.md", `(?m)^## \[?([^\]\s]+)`)
	if newest == "Unreleased" {
		return submatch(t, "main.go", `(?m)^var version = "(.+)"$`)
	}
	return "v" + strings.TrimPrefix(newest, "v")
}

// submatch is the first that a pattern finds in a file of the repository.
func submatch(t *testing.T, file, pattern string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindStringSubmatch(string(content))
	if found == nil {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return found[1]
}

// The image is built with one released Go, and says devel where it is given no version.
func TestDockerfile(t *testing.T) {
	needed, used := submatch(t, "go.mod", `(?m)^go (\d+\.\d+)`), submatch(t, "Dockerfile", `golang:(\d+\.\d+)\.\d+ `)
	if needed != used {
		t.Errorf("the Dockerfile has Go %s, go.mod needs %s", used, needed)
	}
	dockerfile, err := os.ReadFile(filepath.Join("..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	version := "ARG VERSION=" + submatch(t, "main.go", `(?m)^var version = "(.+)"$`) + "\n"
	for i, stage := range strings.Split(string(dockerfile), "\nFROM ")[1:] {
		if !strings.Contains(stage, version) {
			t.Errorf("stage %d of the Dockerfile has no %s", i, version)
		}
	}
	if !strings.Contains(string(dockerfile), "\nLABEL org.opencontainers.image.version=$VERSION ") {
		t.Error("no label has the version")
	}
}
