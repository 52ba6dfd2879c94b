// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command benchfleet measures the manager with a fleet of simulated nodes: etcd,
// kube-apiserver and the manager are real, each a process of its own; the nodes are one
// process, with the API client, publisher and leases of the real shim over containers in
// memory. It prints what starting, reporting, rolling out, a bad image, restarts and a
// silent half of the fleet cost. docs/performance.md says how to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/managedworkload/managedworkload/hack/simnode"
)

type options struct {
	nodes, workloads, templateBytes int
	objects, objectBytes            int
	rate, storm                     int
	window, badFor                  time.Duration
	maxUnavailable                  string
	watchPerNode, leaseOnce         bool
	times                           simnode.Times
	binary, config                  string
	managerArgs                     []string
	output                          string
	run                             *regexp.Regexp
}

func (o *options) addFlags(flags *flag.FlagSet) {
	flags.IntVar(&o.nodes, "nodes", 250, "number of nodes, 2 at least")
	flags.IntVar(&o.workloads, "workloads", 10, "number of workloads, each on all nodes")
	flags.IntVar(&o.templateBytes, "template-bytes", 4000, "size of a template in JSON")
	flags.IntVar(&o.objects, "objects", 0, "number of ConfigMaps and Secrets of the first workload, which each node then gets by a watch through the aggregated API")
	flags.IntVar(&o.objectBytes, "object-bytes", 1<<20, "size of each of them")
	flags.IntVar(&o.rate, "rate", 50, "reports a second of all nodes while the status latency is measured")
	flags.IntVar(&o.storm, "storm", 200, "reports a second of one workload in the storm")
	flags.DurationVar(&o.window, "window", 15*time.Second, "how long to measure what has no end of its own")
	flags.DurationVar(&o.badFor, "bad-for", 3*time.Second, "how long a bad image is there until it is reverted")
	flags.StringVar(&o.maxUnavailable, "max-unavailable", "10%", "budget of a roll-out, a number or a percentage of the nodes")
	flags.BoolVar(&o.watchPerNode, "watch-per-node", false, "open a watch for each node too, as real shims have")
	flags.BoolVar(&o.leaseOnce, "lease-once", false, "write each node's lease once for the whole run, where renewals would take what the machine has")
	flags.DurationVar(&o.times.Create, "create", time.Second, "how long a node takes until a new container runs")
	flags.DurationVar(&o.times.Pull, "pull", time.Second, "how long a node takes to pull a changed image")
	flags.DurationVar(&o.times.Stop, "stop", 500*time.Millisecond, "how long a node takes to end a container")
	flags.DurationVar(&o.times.Ready, "ready", 500*time.Millisecond, "how long a container takes to get ready")
	flags.StringVar(&o.binary, "binary", "", "managedworkload program to measure; empty builds it from this tree")
	flags.StringVar(&o.config, "config", "", "kustomize folder to apply; empty is config/default")
	o.run = regexp.MustCompile("")
	flags.Func("run", "regular expression of the phases to measure; start always runs, for the others need it", func(arg string) (err error) {
		o.run, err = regexp.Compile(arg)
		return err
	})
	flags.Func("manager-arg", "another flag for the manager, such as --leader-elect; may be repeated", func(arg string) error {
		o.managerArgs = append(o.managerArgs, arg)
		return nil
	})
	flags.StringVar(&o.output, "o", "table", "how to print the figures: table or json")
}

func (o *options) validate() error {
	if o.nodes < 2 || o.workloads < 1 || o.output != "table" && o.output != "json" {
		return errors.New("at least 2 nodes and 1 workload, and -o table or json, are needed")
	}
	if o.objects < 0 || o.objects > 30 || o.objectBytes < 1 || o.objectBytes > 1<<20 {
		return errors.New("-objects must be 0 to 30, and -object-bytes 1 to 1 MiB")
	}
	return nil
}

func main() {
	var o options
	o.addFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "benchfleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := o.validate(); err != nil {
		return err
	}
	f, err := start(ctx, o)
	if err != nil {
		return err
	}
	err = f.run(ctx)
	if err != nil {
		// What was measured until then is shown nevertheless.
		err = fmt.Errorf("%w\nmanager's log:\n%s", err, f.stack.Manager.Tail())
	}
	report := Report{Nodes: o.nodes, Workloads: o.workloads, WatchPerNode: o.watchPerNode, Phases: f.phases}
	write := report.writeTable
	if o.output == "json" {
		write = report.writeJSON
	}
	return errors.Join(err, write(os.Stdout), f.close(ctx))
}

// progress says on standard error what happens.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, strings.TrimSpace(format)+"\n", args...)
}
