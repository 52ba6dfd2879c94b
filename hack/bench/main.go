// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures, on a real stack in one run: apply to Running and
// delete to gone beside the same CRI calls made by hand, in turn, and what the
// shim costs while it watches idle workloads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

type options struct {
	rounds, idle int
	idleFor      time.Duration
}

func main() {
	var opts options
	flag.IntVar(&opts.rounds, "rounds", 20, "how many times each way is measured")
	flag.IntVar(&opts.idle, "idle", 100, "how many idle workloads to watch; 0 leaves that out")
	flag.DurationVar(&opts.idleFor, "idle-for", time.Minute, "how long to watch them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts options) (err error) {
	dir, err := os.MkdirTemp("", "mw-bench-")
	if err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	stack, err := localstack.Start(ctx, localstack.Options{
		StateDir: dir, Progress: os.Stderr,
		// The pods of the bare calls are not the shim's.
		ShimArgs: []string{"--allow-foreign-pods"},
	})
	if err != nil {
		return err
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		defer cancel()
		err = errors.Join(err, stack.Stop(cleanup))
	}()
	kube, err := harness.Client(stack)
	if err != nil {
		return err
	}
	b := &bench{stack: stack, kube: kube}
	if err := b.latency(ctx, opts.rounds); err != nil {
		return err
	}
	if opts.idle == 0 {
		return nil
	}
	return b.idle(ctx, opts.idle, opts.idleFor)
}

type bench struct {
	stack *localstack.Stack
	kube  client.WithWatch
}
