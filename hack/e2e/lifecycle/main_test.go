// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests what happens to containers, on a real API server and
// a real containerd: each trigger, hook, probe and source of a grace period.
// Its tests share one stack and leave its parts alone, so they run in parallel.
package lifecycle

import (
	"os"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var env *harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, &env, localstack.Options{}))
}
