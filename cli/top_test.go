// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const (
	usagePath  = "/apis/subresources.managedworkload.dev/v1alpha1"
	usageItems = `{"kind":"WorkloadUsageList","apiVersion":"subresources.managedworkload.dev/v1alpha1","items":[
		{"metadata":{"namespace":"shop","name":"web-1"},"nodeName":"n1","workloadName":"web","usage":{"cpu":"12345678n","memory":"20Mi","ephemeral-storage":"3Mi"},
		 "containers":[{"name":"c","usage":{"cpu":"10m","memory":"19Mi"}},{"name":"log","usage":{"cpu":"2m","memory":"1Mi"}}]},
		{"metadata":{"namespace":"shop","name":"db-1"},"nodeName":"n2","workloadName":"db","usage":{"cpu":"1500m","memory":"2Gi"},"containers":[]}]}`
	nodeItems = `{"kind":"NodeUsageList","apiVersion":"subresources.managedworkload.dev/v1alpha1","items":[
		{"metadata":{"name":"n2"},"usage":{"cpu":"2","memory":"4Gi"},"managed":{"cpu":"1500m","memory":"2Gi"}},
		{"metadata":{"name":"n1"},"usage":{"cpu":"3","memory":"1Gi"},"managed":{"cpu":"13m","memory":"20Mi"}}]}`
)

// top runs the command against an API server that answers a path.
func top(t *testing.T, path string, code int, body string, args ...string) (out, errOut string, exit int) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if req.URL.Path != usagePath+path {
			t.Errorf("asked for %s", req.URL.Path)
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, body)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	call := append([]string{"kubectl-mw", "top"}, args...)
	exit = New(append(call, "--kubeconfig="+file, "-n", "shop"), "v0", genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}).Run(t.Context())
	return stdout.String(), stderr.String(), exit
}

// The tables are those of kubectl top.
func TestTop(t *testing.T) {
	const namespaced, all = "/namespaces/shop/workloadusages", "/workloadusages"
	tests := map[string]struct {
		path, body string
		args       []string
		want       string
	}{
		"workloads":      {namespaced, usageItems, []string{"workload"}, "NAME   NODE   CPU(cores)   MEMORY(bytes)   DISK(bytes)\ndb     n2     1500m        2048Mi          0Mi\nweb    n1     13m          20Mi            3Mi\n"},
		"one":            {namespaced, usageItems, []string{"workload", "mw/web", "--no-headers"}, "web   n1   13m   20Mi   3Mi\n"},
		"containers":     {namespaced, usageItems, []string{"workload", "web", "--containers"}, "NAME   NODE   CONTAINER   CPU(cores)   MEMORY(bytes)   DISK(bytes)\nweb    n1     c           10m          19Mi            0Mi\nweb    n1     log         2m           1Mi             0Mi\n"},
		"all namespaces": {all, usageItems, []string{"workload", "-A", "--no-headers"}, "shop   db    n2   1500m   2048Mi   0Mi\nshop   web   n1   13m     20Mi     3Mi\n"},
		"by memory":      {"/nodeusages", nodeItems, []string{"node", "--sort-by=memory", "--no-headers"}, "n2   2000m   4096Mi   1500m   2048Mi\nn1   3000m   1024Mi   13m     20Mi\n"},
		"nodes":          {"/nodeusages", nodeItems, []string{"nodes", "n1"}, "NAME   CPU(cores)   MEMORY(bytes)   MANAGED-CPU(cores)   MANAGED-MEMORY(bytes)\nn1     3000m        1024Mi          13m                  20Mi\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := top(t, tt.path, http.StatusOK, tt.body, tt.args...)
			if diff := cmp.Diff(tt.want, out); diff != "" || code != ExitOK {
				t.Errorf("exit code %d, %s\n%s", code, errOut, diff)
			}
		})
	}
}

// Without the component, an error says what is missing.
func TestTopWithoutComponent(t *testing.T) {
	for code, want := range map[int]string{
		http.StatusNotFound:           "install the component objects (config/components/objects)",
		http.StatusServiceUnavailable: "the component objects does not answer",
		http.StatusForbidden:          "read what is used",
	} {
		body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"m","reason":%q}`, code,
			map[int]string{404: "NotFound", 503: "ServiceUnavailable", 403: "Forbidden"}[code])
		out, errOut, exit := top(t, "/nodeusages", code, body, "node")
		if exit != ExitError || !strings.Contains(errOut, want) || out != "" {
			t.Errorf("%d: exit code %d, %q %q", code, exit, out, errOut)
		}
	}
	for _, args := range [][]string{{"workload", "web", "-A"}, {"node", "--sort-by=disk"}, {"workload", "-o", "html"}} {
		if _, errOut, exit := top(t, "/none", http.StatusOK, "{}", args...); exit != ExitError {
			t.Errorf("%q: exit code %d, %s", args, exit, errOut)
		}
	}
}
