// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces the manager and the shims of an older commit, with its
// CRDs and rights, by those of this tree, while workloads of many shapes run; then it goes
// back, and upgrades again. None of this may restart a container or lose a kill that is
// under way, but for what docs/upgrading.md says of going back. From the latest of the older
// commits it does so with five nodes: one workload runs on all of them, and the shapes on
// the first. That a manager which takes over writes labels only is what
// TestUpgradeWritesNoSpec of controllers tests.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// older is a commit that is upgraded from.
type older struct {
	commit string
	// leaseRoles: it has roles that the documented commands remove.
	leaseRoles bool
	// revisions: it has ManagedWorkloadRevisions, and the way back to it restarts nothing.
	revisions bool
	// strategy: it has spec.updateStrategy, and holds changes back as this tree does.
	strategy bool
	// nodes is how many nodes there are.
	nodes int
}

// olders are upgraded from each in a process of its own: before admission acted on
// templates, before roll-outs had a strategy, before containers got objects and tokens, and
// before nodes were looked after. A
// clone without them fails the tests: skipping them would be a green light for nothing.
var olders = []older{
	{commit: "c0e26c9a1b05120fe209d143aa20b9a5f22b6b4e", leaseRoles: true, nodes: 1},
	{commit: "88c5a97909270986d163bf0a0bd2744ebb42f604", revisions: true, nodes: 1},
	{commit: "db5b6f9ab92d82d64231de8fa365fe411ac7a7a4", revisions: true, strategy: true, nodes: 1},
	{commit: "6b17e29c9712692289701c13a92ac419fb4eb240", revisions: true, strategy: true, nodes: 5},
}

// fromVariable names the commit to the process that upgrades from it.
const fromVariable = "MW_UPGRADE_FROM"

const root = "../../.."

var (
	// from is what is upgraded from.
	from older
	env  *harness.Env
	// oldConfig and newConfig are the folders that are applied.
	oldConfig, newConfig string
	// program is the file that the manager and the shims are started from, as one of
	// oldProgram and newProgram.
	program, oldProgram, newProgram string
)

func TestMain(m *testing.M) {
	for _, from = range olders {
		if from.commit == os.Getenv(fromVariable) {
			os.Exit(run(m))
		}
	}
	os.Exit(runEach())
}

// runEach runs the tests from each of olders.
func runEach() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := 0
	for _, o := range olders {
		fmt.Println("upgrade from", o.commit)
		cmd := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), fromVariable+"="+o.commit)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "upgrade from %s: %v\n", o.commit, err)
			code = 1
		}
	}
	return code
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := haveCommit(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return harness.Run(m, &env, localstack.Options{}) // says why it skips
	}
	dir, err := os.MkdirTemp("", "mw-upgrade-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of temporary files
	if err := prepare(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the upgrade:", err)
		return 1
	}
	return harness.Run(m, &env, localstack.Options{Config: oldConfig, Binary: program, Nodes: from.nodes})
}

// haveCommit fails with what to do when the clone is too shallow.
func haveCommit(ctx context.Context) error {
	if out, err := git(ctx, "cat-file", "-e", from.commit+"^{commit}"); err != nil {
		return fmt.Errorf("the upgrade test needs commit %s of this repository, clone it with full history (git fetch --unshallow): %w\n%s", from.commit, err, out)
	}
	return nil
}

// prepare writes the older tree into dir and builds both programs.
func prepare(ctx context.Context, dir string) error {
	tree, archive := filepath.Join(dir, "tree"), filepath.Join(dir, "tree.tar")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if out, err := git(ctx, "archive", "--output="+archive, from.commit); err != nil {
		return fmt.Errorf("git archive: %w\n%s", err, out)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", tree).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack the older tree: %w\n%s", err, out)
	}
	oldConfig, newConfig = filepath.Join(tree, "config", "default"), filepath.Join(root, "config", "default")
	program, oldProgram, newProgram = filepath.Join(dir, "managedworkload"), filepath.Join(dir, "old"), filepath.Join(dir, "new")
	return errors.Join(build(ctx, tree, oldProgram), build(ctx, root, newProgram), os.Link(oldProgram, program))
}

// build trims paths, so that two trees share what is in the build cache.
func build(ctx context.Context, tree, target string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", target, ".")
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", tree, err, out)
	}
	return nil
}

func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
