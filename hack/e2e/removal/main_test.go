// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package removal tests ManagedWorkload as a person meets it: kubectl apply, get,
// explain, wait and delete, and the way out of the cluster again. Its tests run
// one after the other: some take everything away.
package removal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var env *harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, &env, localstack.Options{}))
}

const (
	testImage = "managedworkload.dev/testprogram:v1"
	plain     = `
terminationGracePeriodSeconds: 20
containers:
- {name: c, image: ` + testImage + `, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}],
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/c, preStop]}}}}
volumes: [{name: dir, hostPath: {path: $DIR}}]`
)

// config is the folder of config/default with the component for a node without a kubelet,
// and with what the stack changes for the webhook.
var config = sync.OnceValue(func() string {
	dir := filepath.Join(env.Stack.Scratch(), "config")
	folder := filepath.Join("..", "..", "..", "config")
	patches, err := env.Stack.WebhookPatches()
	err = errors.Join(err, localstack.WriteKustomization(dir, filepath.Join(folder, "default"),
		[]string{filepath.Join(folder, "components", "nodes-without-kubelet")}, patches))
	if err != nil {
		panic(err)
	}
	return dir
})

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := env.Stack.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// containers counts those of a namespace that run.
func containers(t *testing.T, namespace string) int {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	list, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace},
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.GetContainers())
}

// eventually waits for what no watch reports.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(harness.Timeout)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come to pass: %s\n%s\n%s", what, env.Stack.Shim.Tail(), env.Stack.Manager.Tail())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// stopPrograms ends manager and shim, as their pods end when their Deployment
// and their DaemonSet are deleted: here they are processes.
func stopPrograms(t *testing.T) {
	t.Helper()
	for _, c := range []*localstack.Component{env.Stack.Manager, env.Stack.Shim} {
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// install applies the configuration, gives the shim a token of its new service account as
// docs/operations.md says, and starts manager and shim.
func install(ctx context.Context) error {
	if _, err := env.Stack.Kubectl(ctx, "apply", "-k", config()); err != nil {
		return err
	}
	if _, err := env.Stack.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s",
		"crd/managedworkloads.managedworkload.dev", "crd/nodeworkloads.managedworkload.dev"); err != nil {
		return err
	}
	if err := env.Stack.IssueToken(ctx); err != nil {
		return err
	}
	for _, c := range []*localstack.Component{env.Stack.Manager, env.Stack.Shim} {
		if c.Running() {
			continue
		}
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// restore lets the tests that follow find everything in place. It is called
// after a workload was made, so that it is done before that is cleaned up.
func restore(t *testing.T) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Timeout)
		defer cancel()
		err := install(ctx)
		if t.Failed() {
			// It may have stopped in the middle of a deletion.
			_, _ = env.Stack.Kubectl(ctx, "wait", "--for=delete", "--timeout=30s", "crd/managedworkloads.managedworkload.dev", "crd/nodeworkloads.managedworkload.dev")
			err = install(ctx)
		}
		if err != nil {
			t.Errorf("install again: %v", err)
		}
	})
}

// playNamespaceController finishes the deletion of the system's namespace, as
// kube-controller-manager does in a cluster, until the test has cleaned up.
func playNamespaceController(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := finalizeNamespace(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("finish the namespace's deletion: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

func finalizeNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{}
	err := env.Kube.Get(ctx, client.ObjectKey{Name: localstack.SystemNamespace}, ns)
	if err != nil || ns.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	for _, obj := range []client.Object{&coordinationv1.Lease{}, &corev1.ServiceAccount{}} {
		if err := env.Kube.DeleteAllOf(ctx, obj, client.InNamespace(ns.Name)); err != nil {
			return err
		}
	}
	ns.Spec.Finalizers = nil
	err = env.Kube.SubResource("finalize").Update(ctx, ns)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the next round
	}
	return err
}

// left are the names of what kubectl still finds of the configuration.
func left(t *testing.T) []string {
	t.Helper()
	out, err := env.Stack.Kubectl(t.Context(), "get", "-k", config(), "-o", "name", "--ignore-not-found")
	if err != nil && !strings.Contains(err.Error(), "the server doesn't have a resource type") {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

func crdsGone() bool {
	out, err := env.Stack.Kubectl(context.Background(), "get", "crd", "-o", "name")
	// That of revisions, on which nothing waits, is there again with the configuration.
	return err == nil && !strings.Contains(out, "/managedworkloads.") && !strings.Contains(out, "/nodeworkloads.")
}

// header is the first line of a table, its columns parted by single spaces.
func header(table string) string {
	line, _, _ := strings.Cut(table, "\n")
	return strings.Join(strings.Fields(line), " ")
}
