// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disruption tests what happens when parts of the stack fail: the shim
// is killed, the API server is away, containerd forgets, objects are forced
// away, other pods appear on the socket. Its tests run one after the other.
package disruption

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var env *harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, &env, localstack.Options{}))
}

// dirVolume lets a container see the test's folder as /dir.
const dirVolume = `
volumes: [{name: dir, hostPath: {path: $DIR}}]`

// component is a part of the stack that a test ends and starts.
func kill(t *testing.T, c *localstack.Component) {
	t.Helper()
	if err := c.Kill(t.Context()); err != nil {
		t.Fatalf("kill: %v", err)
	}
	// A test that fails in between must not take the others with it.
	t.Cleanup(func() {
		if !c.Running() {
			ctx, cancel := context.WithTimeout(context.Background(), harness.Timeout)
			defer cancel()
			if err := c.Start(ctx); err != nil {
				t.Errorf("start again: %v", err)
			}
		}
	})
}

func start(t *testing.T, c *localstack.Component) {
	t.Helper()
	if err := c.Start(t.Context()); err != nil {
		t.Fatalf("start again: %v", err)
	}
}

func touch(t *testing.T, w *harness.Workload, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// containers are those of the workload in the runtime, whatever the API says.
func containers(t *testing.T, w *harness.Workload) []*runtimeapi.Container {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	list, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": w.Namespace},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return list.GetContainers()
}

// forceDelete takes the finalizers from the NodeWorkload and deletes it, as
// people do who lose patience.
func forceDelete(t *testing.T, w *harness.Workload) {
	t.Helper()
	nw := w.Node()
	if err := env.Kube.Patch(t.Context(), nw, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatalf("remove the finalizers: %v", err)
	}
	if err := env.Kube.Delete(t.Context(), nw); err != nil {
		t.Fatalf("delete the NodeWorkload: %v", err)
	}
	// The manager may have put the finalizer back before the deletion.
	again := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/uid","value":%q},{"op":"add","path":"/metadata/finalizers","value":[]}]`, nw.UID)
	err := env.Kube.Patch(t.Context(), nw, client.RawPatch(types.JSONPatchType, again))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) { // gone, or another one of its name
		t.Fatalf("remove the finalizers again: %v", err)
	}
}

const plain = `
terminationGracePeriodSeconds: 20
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}],
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/c, preStop]}}}}` + dirVolume

func isRunning(nw *v1alpha1.NodeWorkload) bool {
	return nw.Status.Phase == corev1.PodRunning && nw.Status.ContainerStatuses[0].State.Running != nil
}
