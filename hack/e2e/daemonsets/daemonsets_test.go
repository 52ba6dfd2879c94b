// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package daemonsets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// wanted is the number of products.
const wanted = 14

// Templates of DaemonSets work as they are: what they refer to is in the containers, their
// tokens have the rights of their service accounts and no others.
func TestDaemonSets(t *testing.T) {
	files, err := filepath.Glob("templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != wanted {
		t.Errorf("%d templates, want %d", len(files), wanted)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			w := env.New(t)
			template := w.Parse(read(t, file, w))
			apply(t, w, rights(template.Spec.ServiceAccountName))
			apply(t, w, read(t, filepath.Join("objects", filepath.Base(file)), w))
			w.AllowObjects()
			w.ApplyTemplate(template)
			w.AwaitReady()
		})
	}
}

// read reads a file, if it is there, with the workload's namespace.
func read(t *testing.T, file string, w *harness.Workload) string {
	t.Helper()
	data, err := os.ReadFile(file) // #nosec G304 -- a file of this package
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "$NS", w.Namespace)
}

// apply has kubectl apply what a product brings beside its DaemonSet.
func apply(t *testing.T, w *harness.Workload, manifests string) {
	t.Helper()
	if manifests == "" {
		return
	}
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Stack.Kubectl(t.Context(), "apply", "-n", w.Namespace, "-f", file); err != nil {
		t.Fatal(err)
	}
}

// seesNodes are the accounts that may read Nodes, and seesNoPods those that may not read
// the pods of their namespace.
var seesNodes, seesNoPods = []string{"cilium", "nvidia-device-plugin", "node-problem-detector"}, []string{"nvidia-device-plugin"}

// rights are a service account and what it may do.
func rights(account string) string {
	text := strings.ReplaceAll(`apiVersion: v1
kind: ServiceAccount
metadata: {name: NAME}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: NAME}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list, watch]}]
`, "NAME", account)
	if !slices.Contains(seesNoPods, account) {
		text += strings.ReplaceAll(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: NAME}
subjects: [{kind: ServiceAccount, name: NAME, namespace: $NS}]
`, "NAME", account)
	}
	return text
}
