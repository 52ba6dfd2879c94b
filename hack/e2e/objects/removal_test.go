// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

const apiService = "v1alpha1.subresources.managedworkload.dev"

// Without a manager the APIService holds up the deletion of every namespace; so it is
// removed first, and then namespaces can be deleted.
func testRemovalOrder(t *testing.T) {
	registration := &unstructured.Unstructured{}
	registration.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	if err := env.Kube.Get(t.Context(), client.ObjectKey{Name: apiService}, registration); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, registration) })
	if err := env.Stack.Manager.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "apiservice/"+apiService, "--for=condition=Available=False", "--timeout=60s")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ends"}}
	if err := env.Kube.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "namespace", namespace.Name, "--wait=false")
	kubectl(t, "wait", "namespace/"+namespace.Name, "--for=condition=NamespaceDeletionDiscoveryFailure", "--timeout=60s")
	kubectl(t, "delete", "apiservice", apiService)
	kubectl(t, "wait", "namespace/"+namespace.Name, "--for=delete", "--timeout="+harness.Timeout.String())
}

// restore brings the aggregated API back.
func restore(t *testing.T, registration *unstructured.Unstructured) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Timeout)
	defer cancel()
	registration.SetResourceVersion("")
	registration.SetUID("")
	if err := client.IgnoreAlreadyExists(env.Kube.Create(ctx, registration)); err != nil {
		t.Error(err)
	}
	if err := env.Stack.Manager.Start(ctx); err != nil {
		t.Error(err)
	}
	if _, err := env.Stack.Kubectl(ctx, "wait", "apiservice/"+apiService, "--for=condition=Available", "--timeout=60s"); err != nil {
		t.Error(err)
	}
}

func kubectl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := env.Stack.Kubectl(t.Context(), args...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
