// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package promcheck runs the queries of the dashboard in Prometheus' engine, which is promtool's, on
// given series.
package promcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

// Promtool is that of MW_TOOLS_DIR, of the folder bin of this repository, which is at root, or of the
// machine.
func Promtool(root string) (string, error) {
	for _, name := range []string{filepath.Join(os.Getenv("MW_TOOLS_DIR"), "promtool"), filepath.Join(root, "bin", "promtool"), "promtool"} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("no promtool: hack/tools/debian.sh promtool gets it")
}

// Query is one of a dashboard.
type Query struct{ Panel, Expr string }

// Queries are those of a dashboard, as Grafana would send them.
func Queries(dashboard []byte) ([]Query, error) {
	var content struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(dashboard, &content); err != nil {
		return nil, fmt.Errorf("read the dashboard: %w", err)
	}
	var found []Query
	for _, panel := range content.Panels {
		for _, target := range panel.Targets {
			found = append(found, Query{panel.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}
	return found, nil
}

var (
	selector = regexp.MustCompile(`\{[^}]*\}`)
	grouping = regexp.MustCompile(`\b(by|without)\s*\([^)]*\)`)
	word     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\(?`)
)

// Metrics are the names of the metrics of a query: what is neither function, label nor keyword.
func (q Query) Metrics() (names []string) {
	plain := grouping.ReplaceAllString(selector.ReplaceAllString(q.Expr, " "), " ")
	for _, found := range word.FindAllString(plain, -1) {
		if strings.Contains(found, "_") && !strings.HasSuffix(found, "(") {
			names = append(names, found)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Series are samples by series, in the order of their times.
type Series map[string][]float64

// Names are the names of the metrics.
func (s Series) Names() []string {
	var names []string
	for series := range s {
		name, _, _ := strings.Cut(series, "{")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Scrape adds what a program shows of its metrics at a time, with further labels as a scrape gives them.
func (s Series) Scrape(exposition io.Reader, labels map[string]string) error {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(exposition)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			s.add(family, m, labels)
		}
	}
	return nil
}

func (s Series) add(family *dto.MetricFamily, m *dto.Metric, labels map[string]string) {
	set := func(suffix string, value float64, more ...string) {
		pairs := slices.Clone(more)
		for _, l := range m.GetLabel() {
			pairs = append(pairs, l.GetName()+"="+strconv.Quote(l.GetValue()))
		}
		for name, value := range labels {
			pairs = append(pairs, name+"="+strconv.Quote(value))
		}
		slices.Sort(pairs)
		key := family.GetName() + suffix + "{" + strings.Join(pairs, ",") + "}"
		s[key] = append(s[key], value)
	}
	switch family.GetType() {
	case dto.MetricType_COUNTER:
		set("", m.GetCounter().GetValue())
	case dto.MetricType_GAUGE:
		set("", m.GetGauge().GetValue())
	case dto.MetricType_HISTOGRAM:
		for _, b := range m.GetHistogram().GetBucket() {
			set("_bucket", float64(b.GetCumulativeCount()), "le="+strconv.Quote(strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)))
		}
		set("_sum", m.GetHistogram().GetSampleSum())
		set("_count", float64(m.GetHistogram().GetSampleCount()))
	default: // none of ours
	}
}

// Run has each query answered five minutes after the last sample; data says whether it has to have a
// result. The error is promtool's.
func Run(ctx context.Context, promtool, dir string, queries []Query, series Series, data func(Query) bool) error {
	type input struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	type sample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
	type expectation struct {
		Expr    string   `json:"expr"`
		Time    string   `json:"eval_time"`
		Samples []sample `json:"exp_samples"`
	}
	type test struct {
		Interval string        `json:"interval"`
		Input    []input       `json:"input_series"`
		Queries  []expectation `json:"promql_expr_test"`
	}
	t := test{Interval: "1m"}
	for name, values := range series {
		var written []string
		for _, v := range values {
			written = append(written, strconv.FormatFloat(v, 'f', -1, 64))
		}
		written = append(written, written[len(written)-1]+"x5")
		t.Input = append(t.Input, input{name, strings.Join(written, " ")})
	}
	for _, q := range queries {
		e := expectation{Expr: "count(" + q.Expr + ") > bool 0", Time: "3m", Samples: []sample{{"{}", 1}}}
		if !data(q) {
			e.Expr = "vector(1) or (" + e.Expr + ")" // it runs
		}
		t.Queries = append(t.Queries, e)
	}
	content, err := yaml.Marshal(map[string]any{"evaluation_interval": "1m", "tests": []test{t}})
	if err != nil {
		return fmt.Errorf("write the test: %w", err)
	}
	file := filepath.Join(dir, "queries.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("write the test: %w", err)
	}
	if out, err := exec.CommandContext(ctx, promtool, "test", "rules", file).CombinedOutput(); err != nil {
		return fmt.Errorf("promtool: %w\n%s", err, out)
	}
	return nil
}
