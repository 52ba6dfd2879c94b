// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/promcheck"
)

// testUsage has kubectl mw top show what a workload uses that the shim has posted, and runs the
// dashboard's queries on what manager and shim show of their metrics.
func testUsage(t *testing.T) {
	series := promcheck.Series{}
	scrape(t, series)
	w := onFirst(t)
	w.Apply(first() + "containers: [{name: c, image: " + testImage + ", args: [serve]}]")
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

// runDashboard runs each query in Prometheus' engine.
func runDashboard(t *testing.T, series promcheck.Series) {
	t.Helper()
	promtool, err := exec.LookPath(filepath.Join(os.Getenv("MW_TOOLS_DIR"), "promtool"))
	if err != nil {
		t.Logf("no promtool: the dashboard's queries are not run")
		return
	}
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "components", "prometheus", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	queries, err := promcheck.Queries(content)
	if err != nil {
		t.Fatal(err)
	}
	known := series.Names()
	must := []string{"CPU of workloads", "Memory of workloads", "Calls of the runtime", "Workloads by node", "Starts (50 and 90 %)"}
	for _, panel := range must {
		if !slices.ContainsFunc(queries, func(q promcheck.Query) bool { return q.Panel == panel }) {
			t.Errorf("there is no panel %s", panel)
		}
	}
	for _, q := range queries {
		for _, name := range q.Metrics() {
			if slices.Contains(must, q.Panel) && !slices.Contains(known, name) {
				t.Errorf("nothing shows %s", name)
			}
		}
	}
	if err := promcheck.Run(t.Context(), promtool, t.TempDir(), queries, series, func(q promcheck.Query) bool { return slices.Contains(must, q.Panel) }); err != nil {
		t.Error(fmt.Errorf("the dashboard on scraped data: %w", err))
	}
}
