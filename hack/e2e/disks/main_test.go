// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disks tests what keeps a node's disk from being filled: containerd's root and the
// logs lie on a file system of 1 GiB of their own.
package disks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// What a shim keeps by default.
const (
	maxLogSize  = 10 << 20
	maxLogFiles = 5
	// high is the percentage of the disk from which images are removed.
	high = 85
)

const diskSize = 1 << 30

var (
	env *harness.Env
	// disk is where the file system is mounted.
	disk string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	status := harness.Run(m, &env, localstack.Options{
		WithRegistry: true,
		ShimArgs: []string{
			fmt.Sprint("--image-gc-high-threshold=", high), "--minimum-image-ttl-duration=1s", "--allow-foreign-pods",
		},
	}, moveToDisk)
	if disk == "" {
		return status
	}
	var loops bytes.Buffer
	list := exec.Command("losetup", "--all")
	list.Stdout, list.Stderr = &loops, os.Stderr
	if err := list.Run(); err != nil || bytes.Contains(loops.Bytes(), []byte(disk)) {
		fmt.Fprintln(os.Stderr, "the loop device is left:", err, loops.String())
		return 1
	}
	return status
}

// moveToDisk moves containerd's root and the folder of the logs to a file system of their own.
// It is mounted below the stack's folder: whatever takes the stack down unmounts it, and the
// loop device goes with its mount.
func moveToDisk(ctx context.Context, e *harness.Env) error {
	stack := e.Stack
	if err := errors.Join(stack.Shim.Stop(ctx), stack.Containerd.Stop(ctx)); err != nil {
		return err
	}
	disk = filepath.Join(stack.StateDir(), "disk")
	file := disk + ".ext4"
	if err := errors.Join(os.Mkdir(disk, 0o755), os.WriteFile(file, nil, 0o600), os.Truncate(file, diskSize)); err != nil {
		return err
	}
	if err := do(ctx, "mkfs.ext4", "-q", "-m", "0", file); err != nil {
		return err
	}
	if err := do(ctx, "mount", "-o", "loop", file, disk); err != nil {
		return err
	}
	for _, folder := range []string{"containerd", "pods-logs"} {
		from, to := filepath.Join(stack.StateDir(), folder), filepath.Join(disk, folder)
		if err := do(ctx, "cp", "-a", from, to); err != nil {
			return err
		}
		if err := do(ctx, "mount", "--bind", to, from); err != nil {
			return err
		}
	}
	return errors.Join(stack.Containerd.Start(ctx), stack.Shim.Start(ctx))
}

func do(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %q: %w: %s", program, args, err, out)
	}
	return nil
}
