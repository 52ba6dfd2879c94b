// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command accept asks a real API server and the manager about Pod templates, such as those
// of DaemonSets, and prints what they say: accepted, with the fields that are ignored,
// or refused, with the path of each field and what to do instead. Nothing is stored and
// nothing runs. A folder holds a template a file, in YAML or JSON: what stands under
// spec.template.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "accept:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("accept", flag.ContinueOnError)
	dir := flags.String("dir", "", "folder with a template a file")
	output := flags.String("o", "table", "output: table or json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *output != "table" && *output != "json" {
		return fmt.Errorf("-o %s: want table or json", *output)
	}
	templates, err := read(*dir)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "mw-accept-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	stack, err := localstack.Start(ctx, localstack.Options{
		StateDir: filepath.Join(state, "stack"), WithoutRuntime: true, WithWebhook: true, WithObjects: true, Progress: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, stack.Stop(ctx))
	}()
	a, err := newAsker(ctx, stack)
	if err != nil {
		return err
	}
	verdicts := make([]verdict, 0, len(templates))
	for _, t := range templates {
		v, err := a.ask(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		verdicts = append(verdicts, v)
	}
	if *output == "json" {
		return printJSON(os.Stdout, verdicts)
	}
	return printTable(os.Stdout, verdicts)
}
