// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/promcheck"
)

// testUsage has kubectl mw top show what a workload uses that the shim has posted, and runs the
// dashboard's queries on what manager and shim show of their metrics, before and after a kill.
func testUsage(t *testing.T) {
	series := promcheck.Series{}
	scrape(t, series)
	w := onFirst(t)
	w.AllowObjects()
	w.Apply(first() + "containers: [{name: c, image: " + testImage + ", args: [serve], lifecycle: {preStop: {sleep: {seconds: 1}}}}]")
	w.AwaitReady()
	w.Change(func(template *corev1.PodTemplateSpec) {
		template.Spec.Containers[0].Args = []string{"serve", "--on-term=exit"}
	})
	w.AwaitTrigger("c", v1alpha1.TriggerDefinitionChanged)
	w.AwaitReady()
	var out, errOut string
	var code int
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, harness.Timeout, true, func(context.Context) (bool, error) {
		out, errOut, code = w.Kubectl("", "mw", "top", "workload", "w", "--containers", "--no-headers")
		return code == 0 && len(strings.Fields(out)) == 6, nil
	})
	if err != nil {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	shown := strings.Fields(out)
	memory, err := strconv.Atoi(strings.TrimSuffix(shown[4], "Mi"))
	if shown[0] != "w" || shown[1] != env.Stack.NodeName() || shown[2] != "c" || !strings.HasSuffix(shown[3], "m") || err != nil || memory > 1000 {
		t.Errorf("top shows %q", out)
	}
	if out, errOut, code := w.Kubectl("", "mw", "top", "node", "--no-headers"); code != 0 || !strings.Contains(out, env.Stack.NodeName()) {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	scrape(t, series)
	runDashboard(t, series)
}

// scrape adds what manager and shim show.
func scrape(t *testing.T, series promcheck.Series) {
	t.Helper()
	shim := env.Stack.Nodes[0].ShimMetrics
	for url, job := range map[string]string{
		env.Stack.ManagerMetrics + "/metrics": "managedworkload-manager", shim + "/metrics": "managedworkload-shim", shim + "/metrics/resource": "managedworkload-resource",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", url, answer.Status, err)
		}
		if err := series.Scrape(strings.NewReader(string(content)), map[string]string{"job": job, "node": env.Stack.NodeName()}); err != nil {
			t.Fatal(err)
		}
	}
}

// mayBeEmpty are the panels of the dashboard that show nothing while nothing of the kind happens, and
// why that is so here.
var mayBeEmpty = map[string]string{
	"ManagedWorkloads not ready":    "all may be ready",
	"Nodes that wait in roll-outs":  "no roll-out waits",
	"Stalled":                       "nothing is",
	"Ended for the node's sake":     "the node is neither short of anything nor shutting down",
	"Errors of the runtime":         "it may answer all that it is asked",
	"Log rotations, images removed": "no log is large, and the disk is not full",
}

// runDashboard runs each query in Prometheus' engine, on metrics that manager and shim have shown.
func runDashboard(t *testing.T, series promcheck.Series) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	promtool, err := promcheck.Promtool(root)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "config", "components", "prometheus", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	queries, err := promcheck.Queries(content)
	if err != nil {
		t.Fatal(err)
	}
	for panel := range mayBeEmpty {
		if !slices.ContainsFunc(queries, func(q promcheck.Query) bool { return q.Panel == panel }) {
			t.Errorf("there is no panel %s", panel)
		}
	}
	must := func(q promcheck.Query) bool { return mayBeEmpty[q.Panel] == "" }
	known := series.Names()
	for _, q := range queries {
		for _, name := range q.Metrics() {
			if must(q) && !slices.Contains(known, name) {
				t.Errorf("panel %s: nothing shows %s", q.Panel, name)
			}
		}
	}
	if err := promcheck.Run(t.Context(), promtool, t.TempDir(), queries, series, must); err != nil {
		t.Error(fmt.Errorf("the dashboard on scraped data: %w", err))
	}
}
