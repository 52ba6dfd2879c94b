// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// is waits until a NodeWorkload is as it should be.
func is(t *testing.T, what string, nw *v1alpha1.NodeWorkload, so func(*v1alpha1.NodeWorkload) bool) {
	t.Helper()
	await(t, what, func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(nw), nw); err != nil {
			return err
		}
		if !so(nw) {
			return fmt.Errorf("it is %+v", nw.ObjectMeta)
		}
		return nil
	})
}

func ends(nw *v1alpha1.NodeWorkload) bool { return !nw.DeletionTimestamp.IsZero() }

func ownedBy(mw *v1alpha1.ManagedWorkload) func(*v1alpha1.NodeWorkload) bool {
	return func(nw *v1alpha1.NodeWorkload) bool { return metav1.IsControlledBy(nw, mw) && !ends(nw) }
}

func isGone(t *testing.T, o client.Object) {
	t.Helper()
	await(t, o.GetName()+" is gone", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return errors.Join(err, fmt.Errorf("it is there: %v", o.GetFinalizers()))
		}
		return nil
	})
}

// finish does what the shim does when the containers are gone.
func finish(t *testing.T, nw *v1alpha1.NodeWorkload) {
	t.Helper()
	must(t, admin.Patch(t.Context(), nw, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
}

// The policies do not keep the garbage collector, the namespace controller and a
// storage migration from their work.
func TestControllersOfTheCluster(t *testing.T) {
	i := installation{namespace: "managedworkload-system"}
	i.apply(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}
	create(t, ns)
	createNode(t, i, "p1", nil)
	await(t, "the namespace's account", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: tenant, Name: "default"}, &corev1.ServiceAccount{})
	})
	t.Cleanup(func() { letGo(t) })

	// No manager runs yet: it is the collector who ends what has no owner any more.
	lost := nodeWorkload("lost", "p1")
	lost.Finalizers = []string{v1alpha1.Finalizer}
	before := managedWorkload("before")
	before.UID = "gone"
	lost.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(before, v1alpha1.GroupVersion.WithKind("ManagedWorkload"))}
	create(t, lost)
	is(t, "the collector deletes what has lost its owner", lost, ends)
	finish(t, lost)
	isGone(t, lost)

	runManager(t, i, false)
	mw := managedWorkload("web")
	create(t, mw)
	nw := onNode(t, "p1")
	uid := nw.UID
	_, err := stack.Kubectl(t.Context(), "delete", "mw", "web", "-n", tenant, "--cascade=orphan", "--timeout=60s")
	must(t, err)
	is(t, "the orphan has no owner", nw, func(nw *v1alpha1.NodeWorkload) bool { return len(nw.OwnerReferences) == 0 && !ends(nw) })
	again := managedWorkload("web")
	create(t, again)
	is(t, "it is adopted", nw, ownedBy(again))
	if nw.UID != uid {
		t.Errorf("UID %s, want %s", nw.UID, uid)
	}

	// A storage migration reads and writes everything as it is.
	migrator := as(t, admin, "kube-system", "generic-garbage-collector", nil)
	await(t, "a storage migration", func(ctx context.Context) error {
		list := &v1alpha1.ManagedWorkloadRevisionList{}
		if err := admin.List(ctx, list, client.InNamespace(tenant)); err != nil || len(list.Items) == 0 {
			return errors.Join(err, errors.New("no revision"))
		}
		for _, o := range []client.Object{again, nw, &list.Items[0]} {
			if err := errors.Join(admin.Get(ctx, client.ObjectKeyFromObject(o), o), migrator.Update(ctx, o)); err != nil {
				return err
			}
		}
		return nil
	})

	must(t, admin.Delete(t.Context(), again, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	is(t, "the manager deletes it", nw, ends)
	finish(t, nw)
	isGone(t, nw)
	isGone(t, again)

	last := managedWorkload("last")
	create(t, last)
	nw = onNode(t, "p1")
	must(t, admin.Delete(t.Context(), ns))
	is(t, "it ends with the namespace", nw, ends)
	finish(t, nw)
	isGone(t, nw)
	isGone(t, last)
	isGone(t, ns)
}

// Roles are aggregated to those of Kubernetes by their component, and not without it.
func TestAggregatedRoles(t *testing.T) {
	i := installation{namespace: "managedworkload-system"}
	i.apply(t)
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	as := func(role string) client.Client {
		account(t, tenant, "with-"+role)
		create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: tenant, Name: "with-" + role}},
		})
		return as(t, admin, tenant, "with-"+role, nil)
	}
	edits, views := as("edit"), as("view")
	apply := creation(managedWorkload("web"), client.DryRunAll)
	look := func(ctx context.Context, c client.Client) error {
		return c.List(ctx, &v1alpha1.ManagedWorkloadList{}, client.InNamespace(tenant))
	}
	for what, err := range map[string]error{"edit": apply(t.Context(), edits), "view": look(t.Context(), views)} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("without the component, %s: %v", what, err)
		}
	}
	i.components = []string{"aggregated-roles"}
	i.applyAgain(t)
	await(t, "edit may create a ManagedWorkload", func(ctx context.Context) error { return apply(ctx, edits) })
	await(t, "view may see ManagedWorkloads", func(ctx context.Context) error { return look(ctx, views) })
	if err := apply(t.Context(), views); !apierrors.IsForbidden(err) {
		t.Errorf("view may create: %v", err)
	}
}

// A node without a kubelet gets its first token by the commands of docs/operations.md, and
// the token ends with the Node.
func TestFirstTokenOfANode(t *testing.T) {
	i := installation{namespace: "managedworkload-system"}
	i.apply(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	must(t, err)
	_, after, found := strings.Cut(string(text), "makes the Node and the first token:\n\n    kubectl apply -f - <<'YAML'\n")
	manifest, after, _ := strings.Cut(after, "    YAML\n")
	command, _, ended := strings.Cut(after, "\n\n")
	if !found || !ended {
		t.Fatal("the documentation has no such commands")
	}
	file := filepath.Join(t.TempDir(), "node.yaml")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(manifest, "\n    ", "\n")[4:]), 0o600))
	_, err = stack.Kubectl(t.Context(), "apply", "-f", file)
	must(t, err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}
	t.Cleanup(func() { _ = admin.Delete(context.Background(), node) })
	args := strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
	token, err := stack.Kubectl(t.Context(), args[1:]...)
	must(t, err)
	config := rest.AnonymousClientConfig(stack.RESTConfig())
	config.BearerToken = strings.TrimSpace(token)
	shim, err := client.New(config, client.Options{Scheme: admin.Scheme(), Mapper: admin.RESTMapper()})
	must(t, err)
	own := &corev1.Node{}
	await(t, "the shim sees its Node", func(ctx context.Context) error { return shim.Get(ctx, client.ObjectKeyFromObject(node), own) })
	must(t, admin.Delete(t.Context(), node))
	await(t, "the token ends with the Node", func(ctx context.Context) error {
		if err := shim.List(ctx, &v1alpha1.NodeWorkloadList{}); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("it says %w", errors.Join(err, errors.New("not unauthorized")))
		}
		return nil
	})
}
