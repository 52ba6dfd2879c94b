// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config_test asks a real API server what the roles and the policy of
// this folder allow.
package config_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	managerUser = "system:serviceaccount:managedworkload-system:managedworkload-manager"
	shimUser    = "system:serviceaccount:managedworkload-system:managedworkload-shim"
	nodeExtra   = "authentication.kubernetes.io/node-name"
)

// server is an API server with the roles and the policy of this folder.
func server(t *testing.T) *rest.Config {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server: not with -short")
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "bin")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Skip("no kube-apiserver: run make tools, or set KUBEBUILDER_ASSETS")
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join("crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin := newClient(t, cfg)
	files := []string{"manager/namespace.yaml"}
	for _, pattern := range []string{"rbac/*.yaml", "policy/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if filepath.Base(file) != "kustomization.yaml" {
			apply(t, admin, file)
		}
	}
	return cfg
}

func newClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// apply creates every object of a file.
func apply(t *testing.T, c client.Client, file string) {
	t.Helper()
	content, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	decoder := yaml.NewYAMLOrJSONDecoder(content, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && len(object.Object) > 0 {
			err = c.Create(t.Context(), object)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// Each right that the programs use, and some that they must not have.
func TestRoles(t *testing.T) {
	cfg := server(t)
	admin := newClient(t, cfg)
	tests := map[string]struct {
		user string
		// rights are "verb namespace/group/resource[/subresource][=name]".
		allowed, denied []string
	}{
		"manager": {
			user: managerUser,
			allowed: []string{
				"list -/managedworkload.dev/managedworkloads", "watch -/managedworkload.dev/managedworkloads",
				"get ns/managedworkload.dev/managedworkloads", "patch ns/managedworkload.dev/managedworkloads",
				"update ns/managedworkload.dev/managedworkloads/status", "update ns/managedworkload.dev/managedworkloads/finalizers",
				"list -/managedworkload.dev/nodeworkloads", "watch -/managedworkload.dev/nodeworkloads",
				"create ns/managedworkload.dev/nodeworkloads", "patch ns/managedworkload.dev/nodeworkloads",
				"delete ns/managedworkload.dev/nodeworkloads", "patch ns/managedworkload.dev/nodeworkloads/status",
				"get -//nodes", "list -//nodes", "watch -//nodes", "create ns//pods", "create ns//events", "patch ns//events",
				"get managedworkload-system/coordination.k8s.io/leases", "list managedworkload-system/coordination.k8s.io/leases",
				"watch managedworkload-system/coordination.k8s.io/leases", "create managedworkload-system/coordination.k8s.io/leases",
				"update managedworkload-system/coordination.k8s.io/leases",
			},
			denied: []string{
				"get ns//secrets", "get ns//configmaps", "get ns//pods", "delete ns//pods", "create ns//pods/exec",
				"delete ns/managedworkload.dev/managedworkloads", "patch -//nodes", "update kube-system/coordination.k8s.io/leases",
			},
		},
		"shim": {
			user: shimUser,
			allowed: []string{
				"list -/managedworkload.dev/nodeworkloads", "watch -/managedworkload.dev/nodeworkloads",
				"get ns/managedworkload.dev/nodeworkloads", "patch ns/managedworkload.dev/nodeworkloads",
				"update ns/managedworkload.dev/nodeworkloads/status", "get -//namespaces=kube-system",
				"get -//nodes", "create -//nodes", "patch -//nodes", "patch -//nodes/status", "create ns//events", "patch ns//events",
				"get managedworkload-system/coordination.k8s.io/leases", "create managedworkload-system/coordination.k8s.io/leases",
				"update managedworkload-system/coordination.k8s.io/leases", "get kube-node-lease/coordination.k8s.io/leases",
				"create kube-node-lease/coordination.k8s.io/leases", "update kube-node-lease/coordination.k8s.io/leases",
			},
			denied: []string{
				"get ns//secrets", "get ns//configmaps", "create ns//pods", "get -//namespaces=default", "delete -//nodes",
				"create ns/managedworkload.dev/nodeworkloads", "delete ns/managedworkload.dev/nodeworkloads",
				"get ns/managedworkload.dev/managedworkloads", "update kube-system/coordination.k8s.io/leases",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, right := range test.allowed {
				if !may(t, admin, test.user, right) {
					t.Errorf("may not %s", right)
				}
			}
			for _, right := range test.denied {
				if may(t, admin, test.user, right) {
					t.Errorf("may %s", right)
				}
			}
		})
	}
}

func may(t *testing.T, admin client.Client, user, right string) bool {
	t.Helper()
	verb, what, _ := strings.Cut(right, " ")
	what, name, _ := strings.Cut(what, "=")
	parts := append(strings.Split(what, "/"), "")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: strings.TrimPrefix(parts[0], "-"), Verb: verb, Group: parts[1], Resource: parts[2], Subresource: parts[3], Name: name,
		},
	}}
	if err := admin.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// A shim writes the objects of its own node, and of no other.
func TestShimOwnNode(t *testing.T) {
	cfg := server(t)
	admin := newClient(t, cfg)
	shim, unbound := shimClient(t, cfg, "n1"), shimClient(t, cfg, "")
	for _, object := range []client.Object{newNodeWorkload("n1"), newNodeWorkload("n2"), newNode("n2")} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	awaitPolicy(t, unbound)
	tests := map[string]struct {
		do     func(ctx context.Context) error
		denied bool
	}{
		"status of its own":           {do: func(ctx context.Context) error { return report(ctx, shim, "n1") }},
		"status of another's":         {do: func(ctx context.Context) error { return report(ctx, shim, "n2") }, denied: true},
		"without a node in its token": {do: func(ctx context.Context) error { return report(ctx, unbound, "n1") }, denied: true},
		"finalizers of its own": {do: func(ctx context.Context) error {
			return patch(ctx, shim, newNodeWorkload("n1"), `{"metadata":{"finalizers":["a/b"]}}`)
		}},
		"finalizers of another's": {
			do: func(ctx context.Context) error {
				return patch(ctx, shim, newNodeWorkload("n2"), `{"metadata":{"finalizers":["a/b"]}}`)
			},
			denied: true,
		},
		"spec of its own": {
			do: func(ctx context.Context) error {
				return patch(ctx, shim, newNodeWorkload("n1"), `{"spec":{"template":{"spec":{"hostPID":true}}}}`)
			},
			denied: true,
		},
		"its Node": {do: func(ctx context.Context) error { return shim.Create(ctx, newNode("n1")) }},
		"another's Node": {do: func(ctx context.Context) error {
			return patch(ctx, shim, newNode("n2"), `{"metadata":{"labels":{"a":"b"}}}`)
		}, denied: true},
		"its lease": {do: func(ctx context.Context) error {
			return shim.Create(ctx, newLease(v1alpha1.DefaultNamespace, v1alpha1.LeaseNamePrefix+"n1"))
		}},
		"another's lease": {do: func(ctx context.Context) error {
			return shim.Create(ctx, newLease(v1alpha1.DefaultNamespace, v1alpha1.LeaseNamePrefix+"n2"))
		}, denied: true},
		"the lock of the managers": {do: func(ctx context.Context) error {
			return shim.Create(ctx, newLease(v1alpha1.DefaultNamespace, "managedworkload-manager"))
		}, denied: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.do(t.Context())
			if test.denied && !denied(err) || !test.denied && err != nil {
				t.Errorf("denied: %t, got: %v", test.denied, err)
			}
		})
	}
}

// shimClient writes as a shim whose token is bound to a node, or to none.
func shimClient(t *testing.T, cfg *rest.Config, node string) client.Client {
	t.Helper()
	impersonated := rest.CopyConfig(cfg)
	impersonated.Impersonate = rest.ImpersonationConfig{
		UserName: shimUser, Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	if node != "" {
		impersonated.Impersonate.Extra = map[string][]string{nodeExtra: {node}}
	}
	return newClient(t, impersonated)
}

// awaitPolicy waits until the API server has taken the policy up: a shim whose
// token is bound to no node is denied.
func awaitPolicy(t *testing.T, unbound client.Client) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = report(ctx, unbound, "n1")
		return denied(last), nil
	})
	if err != nil {
		t.Fatalf("the policy does not hold: %v", last)
	}
}

// A shim without a kubelet has a token that is bound to its Node.
func TestTokenBoundToNode(t *testing.T) {
	cfg := server(t)
	admin := newClient(t, cfg)
	node := newNode("n1")
	for _, object := range []client.Object{node, newNodeWorkload("n1")} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	awaitPolicy(t, shimClient(t, cfg, ""))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: "managedworkload-shim"}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
	}}
	if err := admin.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	anonymous := rest.AnonymousClientConfig(cfg)
	anonymous.BearerToken = request.Status.Token
	if err := report(t.Context(), newClient(t, anonymous), "n1"); err != nil {
		t.Error(err)
	}
}

// denied tells a refusal by the policy from any other error.
func denied(err error) bool {
	return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "managedworkload-shim-own-node")
}

// report writes a status as a shim does.
func report(ctx context.Context, c client.Client, node string) error {
	nw := newNodeWorkload(node)
	if err := c.Get(ctx, client.ObjectKeyFromObject(nw), nw); err != nil {
		return err
	}
	nw.Status.Summary = fmt.Sprint(time.Now().UnixNano())
	nw.Spec = v1alpha1.NodeWorkloadSpec{NodeName: node}
	return c.Status().Update(ctx, nw)
}

func patch(ctx context.Context, c client.Client, object client.Object, merge string) error {
	return c.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(merge)))
}

func newNodeWorkload(node string) *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w-" + node},
		Spec: v1alpha1.NodeWorkloadSpec{
			NodeName: node,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image:1"}}}},
		},
		Status: v1alpha1.NodeWorkloadStatus{ObservedGeneration: -1},
	}
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func newLease(namespace, name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
