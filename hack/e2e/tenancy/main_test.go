// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenancy tests who may do what: a real API server with RBAC, its default
// admission plugins and two more, kube-controller-manager, real tokens, and config/
// applied as users do, also renamed by kustomize. There is no runtime and no shim: what
// shims may do is asked with their tokens. The manager runs where a test needs it.
package tenancy

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

const root = "../../.."

var (
	stack *localstack.Stack
	admin client.WithWatch
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "mw-tenancy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of temporary files
	stack, err = localstack.Start(ctx, localstack.Options{
		StateDir: filepath.Join(dir, "stack"), WithoutRuntime: true, WithoutConfig: true, WithControllerManager: true,
		AdmissionPlugins: []string{"PodNodeSelector", "AlwaysPullImages"}, Progress: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	if admin, err = harness.Client(stack); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
