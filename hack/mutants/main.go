// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants makes one deliberate mistake after another in the packages
// around the kill core and runs the unit tests of the package against each, and
// those of its callers where the list names them. It fails when the tests pass
// with a mistake in the code, or when a mistake of the list cannot be made any
// more. Run it at the root of the repository, as root on Linux: mounts and cgroups
// are tested for real.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/managedworkload/managedworkload/hack/mutants/mutant"
)

// testTimeout bounds one run of a package's tests: a mutant may hang.
const testTimeout = 4 * time.Minute

func main() {
	which := flag.String("run", "", "only mutants whose name or place (package.declaration) matches")
	parallel := flag.Int("p", 2, "how many mutants to try at one time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // the root of all contexts
	err := run(ctx, *which, *parallel)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, which string, parallel int) error {
	wanted, err := regexp.Compile(which)
	if err != nil {
		return fmt.Errorf("flag -run: %w", err)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	var list []mutant.Mutant
	for _, m := range mutants() {
		if wanted.MatchString(m.Name) || wanted.MatchString(m.String()) {
			list = append(list, m)
		}
	}
	survived, err := tryAll(ctx, root, list, parallel)
	fmt.Printf("mutants: %d, not found: %d\n", len(list), survived)
	if err == nil && survived > 0 {
		err = errors.New("unit tests pass with a mistake in the code")
	}
	return err
}

// tryAll tries the mutants and returns how many the tests did not notice.
func tryAll(ctx context.Context, root string, list []mutant.Mutant, parallel int) (survived int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan mutant.Mutant)
	for range parallel {
		wg.Go(func() {
			for m := range next {
				found, failure := examine(ctx, root, m)
				mu.Lock()
				switch {
				case failure != nil:
					err = errors.Join(err, fmt.Errorf("%s: %w", m.Name, failure))
				case found == "":
					survived++
					fmt.Printf("NOT FOUND  %s (%s)\n", m.Name, m)
				default:
					fmt.Printf("found      %s (%s)\n", m.Name, found)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range list {
		next <- m
	}
	close(next)
	wg.Wait()
	return survived, err
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// examine runs the tests of the package, and of its callers, with the mistake in the code and returns the
// test that fails first, empty if all pass.
func examine(ctx context.Context, root string, m mutant.Mutant) (string, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	for _, pkg := range append([]string{m.Package}, callers[m.Package]...) {
		if found, err := tryPackage(ctx, root, overlay, pkg); found != "" || err != nil {
			return found, err
		}
	}
	return "", nil
}

// tryPackage builds the tests of a package with an overlay, runs them, and returns the test that
// fails.
func tryPackage(ctx context.Context, root, overlay, pkg string) (string, error) {
	binary := filepath.Join(filepath.Dir(overlay), "unit.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-ldflags=-s -w", "-o", binary, "./"+pkg)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	test := exec.CommandContext(ctx, binary, "-test.failfast", "-test.timeout", testTimeout.String())
	test.Dir = filepath.Join(root, pkg)
	out, err := test.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if names := failedTest.FindAllStringSubmatch(string(out), -1); len(names) > 0 {
		return names[len(names)-1][1], nil
	}
	if text := string(out); strings.Contains(text, "panic: ") || strings.Contains(text, "fatal error: ") {
		return "panic or timeout", nil
	}
	return "", fmt.Errorf("the tests broke instead of failing: %w\n%s", err, out)
}
