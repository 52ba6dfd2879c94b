// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects tests how ConfigMaps, Secrets and tokens reach containers: by the
// aggregated API of a real manager behind a real kube-apiserver, on two nodes whose shims
// have tokens bound to them. One test asks as an attacker would, and the last looks for the
// secrets where they must not be.
package objects

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var env *harness.Env

func TestMain(m *testing.M) {
	flag.Parse()
	// They wait most of the time: all of them at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(harness.Run(m, &env, localstack.Options{WithObjects: true, UserNamespaces: true, Nodes: 2, ManagerArgs: []string{"--leader-elect"}}, harness.BuildPlugin))
}

const testImage = localstack.ImageV1

// hidden begins each value that is secret: it must be found in no file and no object but
// the Secrets.
var hidden = fmt.Sprintf("hidden-%x", time.Now().UnixNano())

// TestObjects runs tests that leave the stack alone at the same time, then those that take
// a part of it away, and looks at the end for what was secret in all of them.
func TestObjects(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"changes":   testChanges,
			"variables": testVariables,
			"missing":   testMissing,
			"no right":  testNoRight,
			"deleted":   testDeleted,
			"large":     testLarge,
			"attacks":   testAttacks,
			"usage":     testUsage,
			"private":   testPrivateImage,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("user namespaces", testUserNamespaces)
	t.Run("manager away", testManagerAway)
	t.Run("replicas", testReplicas)
	t.Run("removal", testRemovalOrder)
	t.Run("nothing kept", testNothingKept)
}

// onFirst makes a workload for the first node.
func onFirst(t *testing.T) *harness.Workload {
	t.Helper()
	w := env.New(t)
	w.Nodes = 1
	return w
}

// first places a template on the first node.
func first() string { return "nodeName: " + env.Stack.NodeName() + "\n" }
