// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// remove goes the way out of docs/operations.md, and looks for what is left.
func remove(t *testing.T, _ *harness.Workload) {
	if len(cgroupsBelow(t)) == 0 || len(mountsBelow(t, env.Stack.ShimStateDir())) == 0 || len(sandboxes(t)) == 0 {
		t.Error("no cgroups, mounts or pods are to be seen before: that there are none afterwards would mean nothing")
	}
	kubectl(t, "delete", "mw", "--all", "--all-namespaces")
	nothingRuns(t)
	kubectl(t, "delete", "apiservice", "v1alpha1.subresources.managedworkload.dev", "--ignore-not-found")
	kubectl(t, "delete", "namespace", "managedworkload-system", "--ignore-not-found")
	kubectl(t, "delete", "-k", "config/default", "--ignore-not-found")
	if left := kubectl(t, "get", "crd,clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding,namespace", "-o", "name"); len(ours(left)) > 0 {
		t.Errorf("left in the cluster: %q", ours(left))
	}
	nothingRuns(t)
	if err := env.Stack.Containerd.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/run/managedworkload", "/var/lib/managedworkload", "/var/log/managedworkload"} {
		if left := mountsBelow(t, dir); len(left) > 0 {
			t.Errorf("still mounted, so %s cannot be removed: %q", dir, left)
		}
	}
}

// nothingRuns looks for what workloads leave on a node.
func nothingRuns(t *testing.T) {
	t.Helper()
	for what, left := range map[string][]string{
		"pods": sandboxes(t), "cgroups": cgroupsBelow(t), "mounts": mountsBelow(t, env.Stack.ShimStateDir()),
		"folders": names(t, env.Stack.ShimStateDir()+"/pods"), "checkpoints": names(t, env.Stack.ShimStateDir()+"/workloads"),
		"logs": names(t, env.Stack.PodLogDir()),
	} {
		if len(left) > 0 {
			t.Errorf("%s are left: %q", what, left)
		}
	}
}

// ours are the lines that name something of ManagedWorkload.
func ours(lines string) []string {
	var found []string
	for line := range strings.Lines(lines) {
		if strings.Contains(line, "managedworkload") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// names are those of what is in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

// sandboxes are the pods and containers on the shim's containerd.
func sandboxes(t *testing.T) []string {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // only a connection
	pods, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	containers, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, pod := range pods.GetItems() {
		found = append(found, "pod "+pod.GetMetadata().GetName())
	}
	for _, container := range containers.GetContainers() {
		found = append(found, "container "+container.GetMetadata().GetName())
	}
	return found
}
