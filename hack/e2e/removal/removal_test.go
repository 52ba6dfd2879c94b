// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"slices"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// ended checks that the container was ended as its template says.
func ended(t *testing.T, w *harness.Workload) {
	t.Helper()
	got := harness.Texts(w.AwaitFind("c", "", 4))
	if !slices.Equal(got[1:], []string{"preStop", "signal SIGTERM", "stopped code=0"}) {
		t.Errorf("the container saw %q", got)
	}
}

// The workloads first, then the programs: the right order.
func TestRemovalInOrder(t *testing.T) {
	playNamespaceController(t)
	a, b := env.Apply(t, plain), env.New(t)
	restore(t)
	b.Apply(plain)
	a.AwaitReady()
	b.AwaitReady()
	kubectl(t, "delete", "mw", "--all", "--all-namespaces")
	for _, w := range []*harness.Workload{a, b} {
		ended(t, w)
		if n := containers(t, w.Namespace); n != 0 {
			t.Errorf("%d containers still run", n)
		}
	}
	kubectl(t, "delete", "namespace", localstack.SystemNamespace, "--timeout=60s")
	kubectl(t, "delete", "-k", config(), "--ignore-not-found", "--timeout=60s")
	stopPrograms(t)
	if found := left(t); len(found) != 0 || !crdsGone() {
		t.Errorf("left: %q (the CRDs gone: %t)", found, crdsGone())
	}
}

// The programs first: the deletion hangs, nothing is killed by it, and applying
// the configuration again is the way out.
func TestRemovalOutOfOrder(t *testing.T) {
	playNamespaceController(t)
	w := env.Apply(t, plain)
	restore(t)
	w.AwaitReady()
	stopPrograms(t)
	hang(t)
	if n := containers(t, w.Namespace); n != 1 || len(w.Journal("c")) != 1 {
		t.Errorf("%d containers run; the container saw %q", n, harness.Texts(w.Journal("c")))
	}

	if err := install(t.Context()); err != nil {
		t.Fatalf("apply the configuration again: %v", err)
	}
	eventually(t, "the CRDs are gone", crdsGone)
	ended(t, w)
	if n := containers(t, w.Namespace); n != 0 {
		t.Errorf("%d containers still run", n)
	}
	kubectl(t, "delete", "-k", config(), "--ignore-not-found", "--timeout=60s")
	stopPrograms(t)
	if found := left(t); len(found) != 0 {
		t.Errorf("left: %q", found)
	}
}

// hang deletes the configuration, which has to hang on the finalizers.
func hang(t *testing.T) {
	t.Helper()
	_, err := env.Stack.Kubectl(t.Context(), "delete", "-k", config(), "--ignore-not-found", "--timeout=5s")
	if err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Fatalf("kubectl delete -k without the manager, which removes finalizers: %v, want it to time out", err)
	}
	out := kubectl(t, "get", "crd", "nodeworkloads.managedworkload.dev", "-o", "jsonpath={.metadata.deletionTimestamp}")
	if out == "" {
		t.Error("the CRD is not being deleted")
	}
}

// The nodes are gone for good: the finalizers are removed by hand. If a node
// comes back after all, what still runs there is ended as an orphan.
func TestRemovalByHand(t *testing.T) {
	playNamespaceController(t)
	w := env.Apply(t, plain)
	restore(t)
	nw := w.AwaitReady()
	stopPrograms(t)
	hang(t)
	names := strings.Fields(kubectl(t, "get", "nw,mw", "-A", "-o", "name", "--no-headers"))
	if !slices.Contains(names, "nodeworkload.managedworkload.dev/"+nw.Name) || !slices.Contains(names, "managedworkload.managedworkload.dev/"+w.Name) {
		t.Errorf("names %q", names)
	}
	for _, name := range names {
		kubectl(t, "patch", name, "-n", w.Namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
	eventually(t, "the CRDs are gone", crdsGone)
	if n := containers(t, w.Namespace); n != 1 {
		t.Errorf("%d containers run", n)
	}

	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended(t, w)
	eventually(t, "the orphan is gone", func() bool { return containers(t, w.Namespace) == 0 })
}
