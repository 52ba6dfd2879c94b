// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"sigs.k8s.io/yaml"
)

// Metrics follow the conventions of Prometheus and Kubernetes: units and suffixes as they have them,
// help texts, and no label that has a value for each workload but where a person asks for one.
func TestMetricConventions(t *testing.T) {
	metrics := all(t)
	if len(metrics) < 30 {
		t.Fatalf("only %d metrics are found", len(metrics))
	}
	problems, err := promlint.New(strings.NewReader(exposition(metrics, 1))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Metric != "container_start_time_seconds" { // the kubelet's
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	ofWorkloads := []string{
		"managedworkload_nodes", "managedworkload_stalled", "managedworkload_rollout_waiting_nodes",
		"managedworkload_rollout_waiting_timestamp_seconds", "managedworkload_rollout_progress_timestamp_seconds",
	}
	for _, m := range metrics {
		if strings.HasPrefix(m.File, "runtime/nodestats/") {
			continue
		}
		if !strings.HasPrefix(m.Name, "managedworkload_") && !strings.HasPrefix(m.Name, "kubelet_") {
			t.Errorf("%s is not named after the project", m.Name)
		}
		for _, label := range m.Labels {
			if slices.Contains([]string{"namespace", "name", "pod", "container", "workload", "image", "node", "uid"}, label) && !slices.Contains(ofWorkloads, m.Name) {
				t.Errorf("%s: the label %s has a value for each workload or node", m.Name, label)
			}
		}
	}
}

// kubectl explain breaks lines itself: a description has paragraphs and lists, no lines of a
// source file.
func TestDescriptionsFlow(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("crd", "bases", "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d CRDs, error %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd any
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		for _, text := range descriptions(crd) {
			for paragraph := range strings.SplitSeq(text, "\n\n") {
				if lines := strings.Split(paragraph, "\n"); len(lines) > 1 && !strings.HasPrefix(lines[1], "- ") {
					t.Errorf("%s: %q", file, text)
				}
			}
		}
	}
}

// descriptions returns all of a schema.
func descriptions(node any) (found []string) {
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			found = append(found, descriptions(v)...)
		}
	case map[string]any:
		for key, v := range n {
			if text, isText := v.(string); isText && key == "description" {
				found = append(found, text)
			}
			found = append(found, descriptions(v)...)
		}
	}
	return found
}

// docs/metrics.md has each metric.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all(t) {
		if !strings.Contains(string(page), "| `"+m.Name+"` | "+m.Type) || !strings.Contains(string(page), "| "+m.Help+" |") {
			t.Errorf("docs/metrics.md lacks %s: make docs", m.Name)
		}
	}
}
