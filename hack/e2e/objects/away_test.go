// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

const fileAndVariable = `
containers:
- name: c
  image: ` + testImage + `
  args: [serve, --http=:8080]
  env: [{name: KEY, valueFrom: {secretKeyRef: {name: key, key: key}}}]
  volumeMounts: [{name: files, mountPath: /files}]
volumes: [{name: files, configMap: {name: settings}}]`

// While the manager is away containers run on and restart with what the node has, and
// nothing is said to be missing; afterwards changes arrive.
func testManagerAway(t *testing.T) {
	w := onFirst(t)
	w.AllowObjects()
	w.KubectlApply(configMap("settings", "mode", "before") + secret("key", "key", hidden+"-away"))
	w.Apply(first() + fileAndVariable)
	before := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	t.Cleanup(func() {
		if !env.Stack.Manager.Running() {
			_ = env.Stack.Manager.Start(context.Background()) // for those that follow
		}
	})
	if err := env.Stack.Manager.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.KubectlApply(configMap("settings", "mode", "meanwhile"))
	w.AwaitExec("before", "c", "cat", "/files/mode")
	if now := w.Node().Status.ContainerStatuses[0].ContainerID; now != before {
		t.Errorf("container %s, want %s as before", now, before)
	}
	restart(t, w)
	w.AwaitExec(hidden+"-away", "c", "env", "KEY")
	w.AwaitExec("before", "c", "cat", "/files/mode")
	if err := env.Stack.Manager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.AwaitExec("meanwhile", "c", "cat", "/files/mode")
	w.AwaitReady()
}

// One of two replicas serves the nodes when the other is dead, leader or not.
func testReplicas(t *testing.T) {
	other, err := env.Stack.NewReplica()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Timeout)
		defer cancel()
		if !env.Stack.Manager.Running() {
			if err := env.Stack.Manager.Start(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := env.Stack.RouteObjects(ctx, nil); err != nil {
			t.Error(err)
		}
		if err := other.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	w := onFirst(t)
	w.AllowObjects()
	w.KubectlApply(configMap("settings", "mode", "before") + secret("key", "key", hidden+"-replica"))
	w.Apply(first() + fileAndVariable)
	w.AwaitReady()
	if err := env.Stack.Manager.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.RouteObjects(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.KubectlApply(configMap("settings", "mode", "after"))
	w.AwaitExec("after", "c", "cat", "/files/mode")
	// The other one is the leader before long, and makes new ones as well.
	late := onFirst(t)
	late.AllowObjects()
	late.KubectlApply(configMap("settings", "mode", "late") + secret("key", "key", hidden+"-late-replica"))
	late.Apply(first() + fileAndVariable)
	late.AwaitReady()
}
