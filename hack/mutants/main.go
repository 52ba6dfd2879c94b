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
	"slices"
	"strconv"
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

// tryAll tries the mutants, package by package, and returns how many the tests did not notice.
func tryAll(ctx context.Context, root string, list []mutant.Mutant, parallel int) (survived int, err error) {
	for len(list) > 0 {
		pkg := list[0].Package
		var mutants, rest []mutant.Mutant
		for _, m := range list {
			if m.Package == pkg {
				mutants = append(mutants, m)
			} else {
				rest = append(rest, m)
			}
		}
		list = rest
		missed, failure := tryPackage(ctx, root, mutants, parallel)
		survived += missed
		err = errors.Join(err, failure)
	}
	return survived, err
}

// tryPackage builds the tests of one package, and of its callers, once with all its mutants and
// tries one after another. It returns how many the tests did not notice.
func tryPackage(ctx context.Context, root string, mutants []mutant.Mutant, parallel int) (survived int, err error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Printf("           %s: %d\n", mutants[0].Package, len(mutants))
	overlay, apart, err := mutant.Together(mutants, root, dir)
	if err != nil {
		return 0, err
	}
	together, err := build(ctx, root, overlay, mutants[0].Package)
	if err != nil {
		return 0, err
	}
	// Tests that fail without a mistake find none.
	if failed, err := together.run(ctx, ""); err != nil || failed != "" {
		return 0, errors.Join(err, fmt.Errorf("%s: %s fails without a mistake in the code", mutants[0].Package, failed))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range parallel {
		wg.Go(func() {
			for i := range next {
				m := mutants[i]
				found, failure := "", error(nil)
				if slices.Contains(apart, i) {
					found, failure = tryApart(ctx, root, m)
				} else {
					found, failure = together.run(ctx, strconv.Itoa(i))
				}
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
	for i := range mutants {
		next <- i
	}
	close(next)
	wg.Wait()
	return survived, err
}

// tryApart tries a mutant with a build of its own.
func tryApart(ctx context.Context, root string, m mutant.Mutant) (string, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	alone, err := build(ctx, root, overlay, m.Package)
	if err != nil {
		return "", err
	}
	return alone.run(ctx, "")
}

// program is a package's tests.
type program struct{ path, dir string }

// programs are the tests of a package, and of its callers.
type programs []program

// build builds the tests of a package, and of its callers, with an overlay, beside which they lie.
func build(ctx context.Context, root, overlay, pkg string) (programs, error) {
	var all programs
	for i, pkg := range append([]string{pkg}, callers[pkg]...) {
		path := filepath.Join(filepath.Dir(overlay), fmt.Sprintf("unit%d.test", i))
		build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-ldflags=-s -w", "-o", path, "./"+pkg)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build: %w\n%s", err, out)
		}
		all = append(all, program{path, filepath.Join(root, pkg)})
	}
	return all, nil
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run runs the tests with a mistake, empty for none, and returns the test that fails first, empty if
// all pass.
func (p programs) run(ctx context.Context, choice string) (string, error) {
	for _, tests := range p {
		if found, err := tests.run(ctx, choice); found != "" || err != nil {
			return found, err
		}
	}
	return "", nil
}

func (p program) run(ctx context.Context, choice string) (string, error) {
	test := exec.CommandContext(ctx, p.path, "-test.failfast", "-test.timeout", testTimeout.String())
	test.Dir = p.dir
	test.Env = append(os.Environ(), mutant.Variable+"="+choice)
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
