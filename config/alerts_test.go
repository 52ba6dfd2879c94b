// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	_ "github.com/managedworkload/managedworkload/controllers" // registers the metrics of its libraries
	"github.com/managedworkload/managedworkload/hack/promcheck"
)

// ruleSpec is what Prometheus reads of a PrometheusRule.
type ruleSpec struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

const alertTests = "components/prometheus/alerts_test.yaml"

func alerts(t *testing.T) ruleSpec {
	t.Helper()
	type prometheusRule struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       ruleSpec       `json:"spec"`
	}
	objects := kustomization{base: "default", components: []string{"prometheus"}}.render(t)
	return only[prometheusRule](t, objects, "PrometheusRule", "").Spec
}

// Prometheus' own tool tries the alerts on series.
func TestAlerts(t *testing.T) {
	promtool := findPromtool(t)
	dir := t.TempDir()
	rules, err := yaml.Marshal(alerts(t))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(alertTests)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"rules.yaml": rules, "alerts_test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

func findPromtool(t *testing.T) string {
	t.Helper()
	path, err := promcheck.Promtool("..")
	if err != nil {
		t.Skip(err)
	}
	return path
}

// Each alert is seen to fire, to be silent, and in the document for the person on call.
func TestAlertsAreTriedAndDocumented(t *testing.T) {
	var tried struct {
		Tests []struct {
			Alerts []struct {
				Alert string `json:"alertname"`
				Fires []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	content, err := os.ReadFile(alertTests)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &tried); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tried.Tests {
		for _, a := range test.Alerts {
			fires[a.Alert] = fires[a.Alert] || len(a.Fires) > 0
			silent[a.Alert] = silent[a.Alert] || len(a.Fires) == 0
		}
	}
	document, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range alerts(t).Groups {
		for _, rule := range group.Rules {
			if !fires[rule.Alert] || !silent[rule.Alert] {
				t.Errorf("%s: seen to fire: %t, to be silent: %t", rule.Alert, fires[rule.Alert], silent[rule.Alert])
			}
			if !strings.Contains(string(document), "`"+rule.Alert+"`") {
				t.Errorf("docs/operations.md does not say what to do about %s", rule.Alert)
			}
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s has no severity, summary or description", rule.Alert)
			}
		}
	}
}

// An alert on a metric that nothing serves would be silent for ever.
func TestAlertsKnowTheMetrics(t *testing.T) {
	served := append(ownMetrics(t), "up")
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		served = append(served, family.GetName())
	}
	// These have no values until something happens.
	served = append(served, "leader_election_master_status", "controller_runtime_reconcile_errors_total")
	name := regexp.MustCompile(`\b([a-z]+_[a-z_]+|up)[{\[ )]`)
	grouping := regexp.MustCompile(`\bby \([^)]*\)`)
	for _, group := range alerts(t).Groups {
		for _, rule := range group.Rules {
			found := name.FindAllStringSubmatch(grouping.ReplaceAllString(rule.Expr, ""), -1)
			if len(found) == 0 {
				t.Errorf("%s asks for no metric: %s", rule.Alert, rule.Expr)
			}
			for _, match := range found {
				if !slices.Contains(served, match[1]) {
					t.Errorf("%s asks for %s", rule.Alert, match[1])
				}
			}
		}
	}
}

// ownMetrics are the names in the sources of the manager and the shim.
func ownMetrics(t *testing.T) (names []string) {
	t.Helper()
	name := regexp.MustCompile(`Name:\s+"(managedworkload_\w+)"`)
	for _, root := range []string{"../controllers", "../runtime"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range name.FindAllSubmatch(content, -1) {
				names = append(names, string(match[1]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}
