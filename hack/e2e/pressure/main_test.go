// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pressure tests what happens on a node that is short of something, on a real API server
// and a real containerd. What is short is the small file system that the logs lie on, which counts
// as a part of nodefs, or it is whatever a threshold asks for that no machine has. Its tests run
// one after the other, since they share the node.
package pressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

const (
	// The file system of the logs, and what has to be free of it.
	size, sizeFree     = 64 << 20, 32 << 20
	inodes, inodesFree = 2000, 1000
	// softGrace is what a workload is given at most where inodes are short.
	softGrace = 4
)

var (
	env *harness.Env
	// logs is the directory of the logs.
	logs string
)

func TestMain(m *testing.M) {
	os.Exit(harness.WithSharedMounts(func() int { return run(m) }))
}

func run(m *testing.M) (status int) {
	if os.Geteuid() != 0 {
		return harness.Run(m, &env, localstack.Options{})
	}
	dir, err := mount()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mount the file system of the logs:", err)
		return 1
	}
	defer func() {
		if err := errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.Remove(dir)); err != nil {
			fmt.Fprintln(os.Stderr, "unmount the file system of the logs:", err)
			status = 1
		}
	}()
	logs = dir
	return harness.Run(m, &env, localstack.Options{PodLogDir: filepath.Join(dir, "pods"), ShimArgs: []string{
		fmt.Sprintf("--eviction-hard=nodefs.available<%dMi", sizeFree>>20),
		fmt.Sprintf("--eviction-soft=nodefs.inodesFree<%d", inodesFree),
		"--eviction-soft-grace-period=nodefs.inodesFree=1s",
		fmt.Sprintf("--eviction-max-pod-grace-period=%d", softGrace),
		"--eviction-pressure-transition-period=8s",
	}}, makePriorityClass)
}

// prior gives a template the class of makePriorityClass: shims read none.
const prior = `
priorityClassName: prior
priority: 1000`

func makePriorityClass(ctx context.Context, e *harness.Env) error {
	return e.Kube.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "prior"}, Value: 1000})
}

// mount makes a file system in memory.
func mount() (string, error) {
	dir, err := os.MkdirTemp("", "mw-e2e-logs-")
	if err != nil {
		return "", err
	}
	return dir, unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d,mode=0755", size, inodes))
}
