// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package daemonsets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// products is how many templates there are.
const products = 14

// readNodes are the service accounts that may read Nodes; the others may read the Pods of
// their namespace.
var readNodes = []string{"cilium", "nvidia-device-plugin", "node-problem-detector"}

// Templates of DaemonSets work as they are: what they refer to is in their containers, and
// their tokens have the rights of their service accounts and no others.
func TestDaemonSets(t *testing.T) {
	files, err := filepath.Glob("templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != products {
		t.Errorf("%d templates, want %d", len(files), products)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			w := env.New(t)
			template := w.Parse(read(t, file, w))
			giveRights(t, w, template.Spec.ServiceAccountName)
			if manifests := read(t, filepath.Join("objects", filepath.Base(file)), w); manifests != "" {
				w.KubectlApply(manifests)
			}
			w.AllowObjects()
			w.ApplyTemplate(template)
			w.AwaitReady()
		})
	}
}

// read reads a file, if it is there, with the workload's namespace for $NS.
func read(t *testing.T, file string, w *harness.Workload) string {
	t.Helper()
	data, err := os.ReadFile(file) // #nosec G304 -- a file of this package
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "$NS", w.Namespace)
}

// giveRights makes a service account and lets it read Nodes or Pods.
func giveRights(t *testing.T, w *harness.Workload, account string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: w.Namespace, Name: account}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.Namespace, Name: account}}
	read := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}}}
	}
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: read("pods")},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account}, Subjects: subjects},
	}
	if slices.Contains(readNodes, account) {
		meta = metav1.ObjectMeta{Name: w.Namespace}
		objects = append(objects[:1],
			&rbacv1.ClusterRole{ObjectMeta: meta, Rules: read("nodes")},
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}, Subjects: subjects})
	}
	for _, object := range objects {
		if err := env.Kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}
