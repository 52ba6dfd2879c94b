// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures, on a real stack in one run: apply to Running and
// delete to gone, stage by stage, beside the same CRI requests recorded and made
// again by hand, in turn; many workloads at once beside the same requests in
// parallel; and what the shim costs while it watches idle workloads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

type options struct {
	rounds, burst, idle int
	idleFor             time.Duration
}

func main() {
	var opts options
	flag.IntVar(&opts.rounds, "rounds", 20, "how many times each way is measured")
	flag.IntVar(&opts.burst, "burst", 50, "how many workloads to start and end at once; 0 leaves that out")
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
	if opts.rounds < 1 {
		return fmt.Errorf("-rounds: is %d, must be 1 or more", opts.rounds)
	}
	dir, err := os.MkdirTemp("", "mw-bench-")
	if err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	stack, err := localstack.Start(ctx, localstack.Options{
		StateDir: dir, Progress: os.Stderr,
		// The pods that are made by hand are not the shim's.
		ShimArgs: []string{"--allow-foreign-pods"},
	})
	if err != nil {
		return err
	}
	b := &bench{stack: stack}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		defer cancel()
		err = errors.Join(err, b.close(cleanup))
	}()
	if b.kube, err = harness.Client(stack); err != nil {
		return err
	}
	if err := b.measureCalls(ctx, opts); err != nil {
		return err
	}
	if opts.idle == 0 {
		return nil
	}
	return b.idle(ctx, opts.idle, opts.idleFor)
}

type bench struct {
	stack    *localstack.Stack
	kube     client.WithWatch
	recorder *recorder
	player   *player
	// script is what the runtime was asked for the last workload's life.
	script script
}

// measureCalls has the shim, and what is made by hand, reach the runtime through a
// recorder, and then the shim without one again.
func (b *bench) measureCalls(ctx context.Context, opts options) (err error) {
	socket := filepath.Join(b.stack.StateDir(), "recorder.sock")
	if b.recorder, err = record(socket, b.stack.CRIEndpoint()); err != nil {
		return err
	}
	if b.player, err = b.newPlayer("unix://" + socket); err != nil {
		return err
	}
	if err := b.restartShim(ctx, "unix://"+socket); err != nil {
		return err
	}
	if err := b.latency(ctx, "one container with a preStop hook", max(opts.rounds/2, 1), withHook); err != nil {
		return err
	}
	if err := b.latency(ctx, "one container", opts.rounds, plain); err != nil {
		return err
	}
	if opts.burst > 0 {
		if err := b.burst(ctx, opts.burst); err != nil {
			return err
		}
	}
	return b.restartShim(ctx, b.stack.CRIEndpoint())
}

func (b *bench) restartShim(ctx context.Context, endpoint string) error {
	if err := b.stack.Shim.Stop(ctx); err != nil {
		return err
	}
	args := b.stack.Shim.Args()
	for i, arg := range args {
		if strings.HasPrefix(arg, "--runtime-endpoint=") {
			args[i] = "--runtime-endpoint=" + endpoint
		}
	}
	b.stack.Shim.SetArgs(args...)
	return b.stack.Shim.Start(ctx)
}

// close ends the stack before what its shim may still use.
func (b *bench) close(ctx context.Context) error {
	err := b.stack.Stop(ctx)
	if b.player != nil {
		err = errors.Join(err, b.player.close())
	}
	if b.recorder != nil {
		err = errors.Join(err, b.recorder.proxy.Close())
	}
	return err
}
