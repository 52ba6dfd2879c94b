// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet tests a ManagedWorkload on five nodes of one machine, each with a shim, a
// containerd, a pod network and cgroups of its own: how a changed template reaches them,
// what happens when nodes or the manager go away meanwhile, and whether the plugin's plan
// comes true. Changes are made with kubectl. Its tests share the nodes and run one after the
// other; those of KillRequests run at the same time.
package fleet

import (
	"flag"
	"os"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

const nodes = 5

var env *harness.Env

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests that run at the same time wait most of it: all of them at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(harness.Run(m, &env, localstack.Options{NodeName: "node", Nodes: nodes, WithRegistry: true}, harness.BuildPlugin))
}
