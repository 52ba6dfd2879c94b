// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/hack/metricsdoc/declared"
	"github.com/managedworkload/managedworkload/hack/promcheck"
)

// all are the metrics that manager and shim declare.
func all(t *testing.T) []declared.Metric {
	t.Helper()
	found, err := declared.Read("..", slices.Concat(declared.Manager, declared.Shim)...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func dashboard(t *testing.T) []promcheck.Query {
	t.Helper()
	objects := kustomization{base: "default", components: []string{"prometheus"}}.render(t)
	queries, err := promcheck.Queries([]byte(only[corev1.ConfigMap](t, objects, "ConfigMap", "dashboard").Data["managedworkload.json"]))
	if err != nil || len(queries) < 20 {
		t.Fatalf("%d queries, error %v", len(queries), err)
	}
	return queries
}

// exposition is what a program shows of metrics of which each label has one value.
func exposition(metrics []declared.Metric, value int) string {
	var b strings.Builder
	for _, m := range metrics {
		var labels []string
		for _, name := range m.Labels {
			value := "x"
			if m.Name == "managedworkload_nodes" && name == "state" {
				value = "desired"
			}
			labels = append(labels, fmt.Sprintf("%s=%q", name, value))
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Help, m.Name, m.Type)
		of := func(labels []string) string { return "{" + strings.Join(labels, ",") + "}" }
		if m.Type != "histogram" {
			fmt.Fprintf(&b, "%s%s %d\n", m.Name, of(labels), value)
			if m.Name == "managedworkload_nodes" {
				fmt.Fprintf(&b, "%s%s 0\n", m.Name, strings.Replace(of(labels), "desired", "ready", 1))
			}
			continue
		}
		for _, bound := range append(slices.Clone(m.Buckets), "+Inf") {
			fmt.Fprintf(&b, "%s_bucket%s %d\n", m.Name, of(append(slices.Clone(labels), fmt.Sprintf("le=%q", bound))), value)
		}
		fmt.Fprintf(&b, "%s_sum%s %d\n%s_count%s %d\n", m.Name, of(labels), value, m.Name, of(labels), value)
	}
	return b.String()
}

// Each query of the dashboard runs in Prometheus' engine, names only metrics that manager or shim
// declare, and shows something once these have values.
func TestDashboard(t *testing.T) {
	series := promcheck.Series{}
	for scrape := 1; scrape < 3; scrape++ {
		for _, m := range all(t) {
			job := "managedworkload-shim"
			if strings.HasPrefix(m.File, "runtime/nodestats/") {
				job = "managedworkload-resource"
			}
			if err := series.Scrape(strings.NewReader(exposition([]declared.Metric{m}, scrape)), map[string]string{"job": job, "node": "n1"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	queries, known := dashboard(t), series.Names()
	for _, q := range queries {
		names := q.Metrics()
		if len(names) == 0 {
			t.Errorf("%s asks for no metric: %s", q.Panel, q.Expr)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Errorf("%s asks for %s, which is not served", q.Panel, name)
			}
		}
	}
	if err := promcheck.Run(t.Context(), findPromtool(t), t.TempDir(), queries, series, func(promcheck.Query) bool { return true }); err != nil {
		t.Error(err)
	}
}
