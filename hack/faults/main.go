// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command faults makes faults on a local stack while two dozen workloads start,
// change and end, and checks afterwards what the containers saw. See
// docs/faults.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/managedworkload/managedworkload/hack/faults/campaign"
	"github.com/managedworkload/managedworkload/hack/faults/history"
)

func main() {
	opts := campaign.Options{Progress: os.Stderr}
	flag.Uint64Var(&opts.Seed, "seed", 1, "seed of the faults and of the workloads")
	flag.IntVar(&opts.Faults, "n", 100, "how many faults are made")
	flag.IntVar(&opts.Workloads, "workloads", 24, "how many workloads there are")
	flag.StringVar(&opts.Binary, "binary", "", "managedworkload program; built from this tree when empty")
	flag.StringVar(&opts.Keep, "keep", "", "folder that gets journals and logs when there are violations")
	judged := flag.String("judge", "", "judge the history.json of a folder that --keep made, and do nothing else")
	flag.Parse()
	if *judged != "" {
		os.Exit(judge(*judged))
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, opts)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, opts campaign.Options) int {
	result, err := campaign.Run(ctx, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	for _, kind := range result.Missing(opts.Faults) {
		fmt.Fprintf(os.Stderr, "faults: %s occurred too seldom\n", kind)
	}
	return max(verdict(&result, opts.Seed), min(1, len(result.Missing(opts.Faults))))
}

// judge judges a history that was kept.
func judge(file string) int {
	data, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	var h history.History
	if err := json.Unmarshal(data, &h); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	result := campaign.Result{Report: history.Check(&h)}
	return verdict(&result, 0)
}

func verdict(result *campaign.Result, seed uint64) int {
	if err := result.Print(os.Stdout, seed); err != nil || len(result.Violations) > 0 || result.Outside == 0 {
		return 1
	}
	return 0
}
