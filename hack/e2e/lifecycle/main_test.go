// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests what happens to containers, on a real API server and
// a real containerd: each trigger, hook, probe and source of a grace period.
// Its tests share one stack and leave its parts alone, so they run in parallel.
package lifecycle

import (
	"fmt"
	"os"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var (
	env *harness.Env
	// staticDir holds the files of static workloads.
	staticDir string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if staticDir, err = os.MkdirTemp("", "mw-static-"); err != nil {
		fmt.Fprintln(os.Stderr, "make the directory of static workloads:", err)
		return 1
	}
	defer os.RemoveAll(staticDir) //nolint:errcheck // it is in a temporary folder
	return harness.Run(m, &env, localstack.Options{ShimArgs: []string{"--static-dir=" + staticDir}})
}
