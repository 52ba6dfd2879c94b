// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// installation is config/ as one user installs it.
type installation struct {
	// edit are lines of the kustomization; namespace is what its namespace becomes.
	edit, prefix, suffix, namespace string
	// components are those of config/components, beside the one for nodes without a kubelet.
	components []string
	// objectsRoles adds the roles of the component objects: its APIService would have no server here, and
	// keep namespaces from being deleted.
	objectsRoles bool
}

// account is the name of a service account of config/.
func (i installation) account(name string) string {
	return i.prefix + "managedworkload-" + name + i.suffix
}

// apply applies the installation, which ends with the test.
func (i installation) apply(t *testing.T) {
	t.Helper()
	dir := i.applyAgain(t)
	t.Cleanup(func() { i.remove(t, dir) })
	_, err := stack.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	must(t, err)
}

// apiService is the name of the APIService of the component objects.
const apiService = "v1alpha1.subresources.managedworkload.dev"

// crds are the CRDs of config/.
var crds = []string{
	"crd/managedworkloads.managedworkload.dev", "crd/managedworkloadrevisions.managedworkload.dev",
	"crd/nodeworkloads.managedworkload.dev", "crd/killrequests.managedworkload.dev",
}

// remove removes the installation in the order of docs/operations.md: while an APIService has no
// server, no namespace ends, and one whose kinds are deleted at the same time may be tried again only
// after a minute. Of the rest only the CRDs take time: kubectl would ask for five objects a second
// whether they are gone. A removal that does not end says what it waits for.
func (i installation) remove(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"delete", "apiservice", apiService, "--ignore-not-found", "--timeout=60s"},
		{"delete", "namespace", i.namespace, "--ignore-not-found", "--timeout=60s"},
		{"delete", "-k", dir, "--ignore-not-found", "--wait=false"},
		append([]string{"wait", "--for=delete", "--timeout=60s"}, crds...),
	} {
		begun := time.Now()
		_, err := stack.Kubectl(ctx, args...)
		t.Logf("%s %s: %s", args[0], args[1], time.Since(begun).Round(time.Second))
		if err != nil {
			t.Error(err)
			sayWhatIsLeft(ctx, t)
			return
		}
	}
}

// sayWhatIsLeft logs what is being deleted, and why that takes long.
func sayWhatIsLeft(ctx context.Context, t *testing.T) {
	t.Helper()
	const deleted = `jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name}: {.status.conditions}{"\n"}{end}`
	for _, args := range [][]string{{"namespaces", "-o", deleted}, {"crds", "-o", deleted}, {"apiservices"}} {
		out, err := stack.Kubectl(ctx, append([]string{"get"}, args...)...)
		t.Logf("%s: %v\n%s", args[0], err, out)
	}
	t.Log(stack.ControllerManager.Tail())
}

// applyAgain applies the installation over one that is there, and returns its folder.
func (i installation) applyAgain(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	config, err := filepath.Abs(filepath.Join(root, "config"))
	must(t, err)
	config, err = filepath.Rel(dir, config) // kustomize takes no absolute ones
	must(t, err)
	patches, err := stack.WebhookPatches()
	must(t, err)
	resources := []string{filepath.Join(config, "default")}
	if i.objectsRoles {
		resources = append(resources, copyRoles(t, dir)...)
	}
	text := i.edit + patches.Text() + "resources: [" + strings.Join(resources, ", ") + "]\ncomponents:\n"
	for _, component := range append([]string{"nodes-without-kubelet"}, i.components...) {
		text += "- " + filepath.Join(config, "components", component) + "\n"
	}
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	_, err = stack.Kubectl(t.Context(), "apply", "-k", dir)
	must(t, err)
	return dir
}

// copyRoles copies the roles of the component objects, and their bindings, to a folder, and returns
// the names of the files.
func copyRoles(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config", "components", "objects", "*role*.yaml"))
	must(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		name := filepath.Base(file)
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		names = append(names, name)
	}
	if len(names) == 0 {
		t.Fatal("the component objects has no roles")
	}
	return names
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create makes objects that end with the test, finalizers or not.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		must(t, admin.Create(t.Context(), o))
		t.Cleanup(func() {
			ctx := context.Background()
			bare, ok := o.DeepCopyObject().(client.Object)
			if !ok {
				return
			}
			err := admin.Patch(ctx, bare, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
			if err = errors.Join(client.IgnoreNotFound(err), client.IgnoreNotFound(admin.Delete(ctx, o))); err != nil {
				t.Error(err)
			}
			if _, is := o.(*corev1.Namespace); is { // it would be in the way of the next
				if _, err := stack.Kubectl(ctx, "wait", "--for=delete", "--timeout=60s", "namespace/"+o.GetName()); err != nil {
					t.Error(err)
					sayWhatIsLeft(ctx, t)
				}
			}
		})
	}
}

// Who tries something.
const (
	aManager         = "the manager"
	aShim            = "the shim of node n1"
	anotherShim      = "the shim of node n2"
	aShimWithoutNode = "a shim's account without a node"
	aShimAsItsNode   = "the shim of node n1, as that node"
	aShimAsAnother   = "the shim of node n1, as node n2"
	anOwnerAsNode    = "the owner with a token bound to n1, as that node"
	aStandaloneShim  = "the shim of node n3, without a kubelet"
	anOwner          = "the owner of the namespace"
	aBoundOwner      = "the owner with a token bound to n1"
	anEditor         = "an editor without Pods"
	aBoundEditor     = "the editor with a token bound to n1"
	aCollector       = "the garbage collector"
	anAdministrator  = "a cluster administrator's account"
)

// people are clients with real tokens, by who has them.
func people(t *testing.T, i installation) map[string]client.Client {
	t.Helper()
	everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	account(t, tenant, "owner")
	account(t, tenant, "editor")
	account(t, tenant, "administrator")
	role(t, "owner", everything)
	role(t, "editor", []rbacv1.PolicyRule{{
		APIGroups: []string{"managedworkload.dev"}, Resources: []string{"managedworkloads"}, Verbs: []string{"*"},
	}, {
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"},
	}})
	// What a namespace grants so that its containers get tokens. The manager's own gives it more than
	// it needs, to see what the policy limits.
	grantTokens(t, i, tenant, "owner")
	grantTokens(t, i, i.namespace)
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenancy-administrator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: tenant, Name: "administrator"}},
	})
	shim := func(node, acting string) client.Client {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, GenerateName: "shim-"},
			Spec: corev1.PodSpec{
				ServiceAccountName: i.account("shim"), NodeName: node,
				Containers: []corev1.Container{{Name: "shim", Image: "managedworkload"}},
			},
		}
		await(t, "a shim's Pod may be made", func(context.Context) error { return admin.Create(t.Context(), pod) })
		t.Cleanup(func() { _ = admin.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
		return acts(t, acting, token(t, admin, i.namespace, i.account("shim"), &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}))
	}
	toNode := func(name string) *authenticationv1.BoundObjectReference {
		node := &corev1.Node{}
		must(t, admin.Get(t.Context(), client.ObjectKey{Name: name}, node))
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}
	}
	all := map[string]client.Client{
		aManager:         as(t, admin, i.namespace, i.account("manager"), nil),
		aShim:            shim("n1", ""),
		anotherShim:      shim("n2", ""),
		aShimAsItsNode:   shim("n1", "n1"),
		aShimAsAnother:   shim("n1", "n2"),
		aShimWithoutNode: as(t, admin, i.namespace, i.account("shim"), nil),
		aStandaloneShim:  as(t, admin, i.namespace, i.account("standalone-shim"), toNode("n3")),
		anOwner:          as(t, admin, tenant, "owner", nil),
		anEditor:         as(t, admin, tenant, "editor", nil),
		aCollector:       as(t, admin, "kube-system", "generic-garbage-collector", nil),
		anAdministrator:  as(t, admin, tenant, "administrator", nil),
	}
	all[aBoundEditor] = as(t, all[anEditor], tenant, "editor", toNode("n1"))
	all[aBoundOwner] = as(t, all[anOwner], tenant, "owner", toNode("n1")) // minted by himself
	all[anOwnerAsNode] = acts(t, "n1", token(t, all[anOwner], tenant, "owner", toNode("n1")))
	return all
}

// grantTokens lets the manager make tokens of accounts of a namespace; of all, where none is named.
func grantTokens(t *testing.T, i installation, namespace string, accounts ...string) {
	t.Helper()
	create(t,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tokens"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}, ResourceNames: accounts,
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tokens"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tokens"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: i.namespace, Name: i.account("manager")}},
		})
}

func account(t *testing.T, namespace, name string) {
	t.Helper()
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// role gives an account of the tenant's namespace rights there.
func role(t *testing.T, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	create(t,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name}, Rules: rules},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: tenant, Name: name}},
		})
}

// as is a client with a token that minter gets for an account.
func as(t *testing.T, minter client.Client, namespace, name string, bound *authenticationv1.BoundObjectReference) client.Client {
	t.Helper()
	return acts(t, "", token(t, minter, namespace, name, bound))
}

// token is one that minter gets for an account.
func token(t *testing.T, minter client.Client, namespace, name string, bound *authenticationv1.BoundObjectReference) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	await(t, "a token of "+namespace+"/"+name, func(ctx context.Context) error {
		sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		return minter.SubResource("token").Create(ctx, sa, request)
	})
	return request.Status.Token
}

// acts is a client with a token, as a node unless that is empty.
func acts(t *testing.T, node, token string) client.Client {
	t.Helper()
	config := rest.AnonymousClientConfig(stack.RESTConfig())
	config.BearerToken, config.QPS, config.Burst = token, 500, 500
	if node != "" {
		config.Impersonate.UserName = "system:node:" + node
	}
	c, err := client.New(config, client.Options{Scheme: admin.Scheme(), Mapper: admin.RESTMapper()})
	must(t, err)
	return c
}

// await tries until it works: controllers make accounts, and rights take a moment.
func await(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := try(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
		return ctx.Err() == nil && (last == nil || apierrors.IsAlreadyExists(last)), nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}
