// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package daemonsets runs workloads that use what products' DaemonSets use: the templates
// are modelled on them, with the test program in place of theirs. It checks from inside its
// container that all it was promised is there, and is Ready only then.
package daemonsets

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var env *harness.Env

func TestMain(m *testing.M) {
	flag.Parse()
	// They wait most of the time: all of them at once.
	if err := flag.Set("test.parallel", strconv.Itoa(products)); err != nil {
		panic(err)
	}
	os.Exit(harness.WithSharedMounts(func() int { return harness.Run(m, &env, localstack.Options{WithObjects: true}) }))
}
