// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants makes one deliberate mistake after another in the core of the
// shim and runs the comparison with the kubelet against each. It fails when a
// mistake is not found, or when one of the list cannot be made any more.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	shared "github.com/managedworkload/managedworkload/hack/mutants/mutant"
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
	var list []shared.Mutant
	for _, m := range mutants {
		if wanted.MatchString(m.Name) {
			list = append(list, shared.Mutant(m))
		}
	}
	overlay, apart, err := shared.Together(list, root, dir)
	if err != nil {
		return err
	}
	together, err := build(overlay)
	if err != nil {
		return err
	}
	// A comparison that finds a difference without a mistake finds no mistake.
	if found, err := play(together, ""); err != nil || found != "" {
		return errors.Join(err, fmt.Errorf("%s: a difference without a mistake in the code", found))
	}
	survived := 0
	for i, m := range list {
		var found string
		if slices.Contains(apart, i) {
			found, err = playApart(m, root)
		} else {
			found, err = play(together, strconv.Itoa(i))
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", m.Name, err)
		case found == "":
			survived++
			fmt.Printf("NOT FOUND  %s\n", m.Name)
		default:
			fmt.Printf("found      %s (%s)\n", m.Name, found)
		}
	}
	fmt.Printf("mutants: %d, not found: %d\n", len(list), survived)
	if survived > 0 {
		return errors.New("a mistake went unnoticed")
	}
	return nil
}

// playApart plays scenarios with one mistake that needs a build of its own.
func playApart(m shared.Mutant, root string) (string, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	binary, err := build(overlay)
	if err != nil {
		return "", err
	}
	return play(binary, "")
}

// build builds the comparison with an overlay, and beside it.
func build(overlay string) (binary string, err error) {
	binary = filepath.Join(filepath.Dir(overlay), "conformance.test")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-ldflags=-s -w", "-o", binary, ".") //nolint:gosec // our own list
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}

// play plays scenarios with a mistake, empty for none, and returns the first in which a
// difference was found, empty if none was.
func play(binary, choice string) (string, error) {
	play := exec.Command(binary, "-test.run", "TestScenarios", "-seed", fmt.Sprint(*seed), "-n", fmt.Sprint(*number), //nolint:gosec // our own
		"-stop-at", "1", "-shrink=false", "-output", filepath.Dir(binary))
	play.Env = append(os.Environ(), shared.Variable+"="+choice)
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
