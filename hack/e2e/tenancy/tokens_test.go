// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where the manager may make tokens in all namespaces, those of Kubernetes are left out until an
// administrator labels them, and its own account always.
func TestTokensEverywhere(t *testing.T) {
	i := installation{
		edit: "namePrefix: team-a-\n", prefix: "team-a-", namespace: "managedworkload-system",
		objectsRoles: true, components: []string{"objects-everywhere"},
	}
	i.apply(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	create(t, node, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	account(t, tenant, "web")

	manager := as(t, admin, i.namespace, i.account("manager"), nil)
	get := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return tokenOf(namespace, name, "Node", node.Name, 3600)(ctx, manager)
		}
	}
	refused := func(words string, try func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := try(ctx); err == nil || !strings.Contains(err.Error(), words) {
				return errors.Join(errors.New("not refused with: "+words), err)
			}
			return nil
		}
	}
	controller := get(metav1.NamespaceSystem, "clusterrole-aggregation-controller")
	await(t, "a token of a tenant", get(tenant, "web"))
	await(t, "no token of a controller", refused("run: kubectl label namespace kube-system managedworkload.dev/allow-tokens=true", controller))
	await(t, "no token of its own", refused(noManagers, get(i.namespace, i.account("manager"))))
	label := func(value string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := stack.Kubectl(ctx, "label", "namespace", metav1.NamespaceSystem, "--overwrite", "managedworkload.dev/allow-tokens"+value)
			return err
		}
	}
	t.Cleanup(func() {
		if err := label("-")(context.Background()); err != nil {
			t.Error(err)
		}
	})
	must(t, label("=true")(t.Context()))
	await(t, "a token of a controller, once its namespace is labelled", controller)
}
