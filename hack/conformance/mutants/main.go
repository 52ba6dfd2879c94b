// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants makes one deliberate mistake after another in the core of the
// shim and runs the comparison with the kubelet against each. It fails when a
// mistake is not found, or when one of the list cannot be made any more.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	number = flag.Int("n", 600, "how many scenarios to play for each mutant")
	seed   = flag.Uint64("seed", 1, "the seed of the first scenario")
	which  = flag.String("run", "", "only mutants whose name matches")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	wanted, err := regexp.Compile(*which)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tried, survived := 0, 0
	for _, m := range mutants {
		if !wanted.MatchString(m.name) {
			continue
		}
		tried++
		found, err := m.examine(root, dir)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", m.name, err)
		case found == "":
			survived++
			fmt.Printf("NOT FOUND  %s\n", m.name)
		default:
			fmt.Printf("found      %s (%s)\n", m.name, found)
		}
	}
	fmt.Printf("mutants: %d, not found: %d\n", tried, survived)
	if survived > 0 {
		return errors.New("a mistake went unnoticed")
	}
	return nil
}

// examine builds the comparison with the mistake in it and returns where it was
// found, empty if it was not.
func (m mutant) examine(root, dir string) (string, error) {
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "conformance.test")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-ldflags=-s -w", "-o", binary, ".") //nolint:gosec // our own list
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	play := exec.Command(binary, "-test.run", "TestScenarios", "-seed", fmt.Sprint(*seed), "-n", fmt.Sprint(*number), //nolint:gosec // our own
		"-stop-at", "1", "-shrink=false", "-output", dir)
	var out bytes.Buffer
	play.Stdout, play.Stderr = &out, &out
	if play.Run() == nil {
		return "", nil
	}
	for line := range strings.Lines(out.String()) {
		if seed, _, ok := strings.Cut(line, ": the shim and the kubelet differ"); ok {
			return seed, nil
		}
	}
	return "", fmt.Errorf("the comparison broke instead of finding a difference:\n%s", out.String())
}

// overlay writes the file with the mistake, and the overlay that puts it in the
// place of the right one.
func (m mutant) overlay(root, dir string) (string, error) {
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path) //nolint:gosec // our own list
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("%s has %d times what is to be changed", m.file, n)
	}
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}
