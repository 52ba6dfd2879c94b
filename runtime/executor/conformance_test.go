// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// exclusions counts, by rule, in how many vectors something is not compared.
// The rules are differences on purpose (docs/kubelet-differences.md); each drops
// no more than what it names.
type exclusions map[string]int

const (
	// The kubelet's error prints its own data structures.
	ruleNoIPText = "error text of a hook without a pod IP"
)

// eachVector runs a test for every vector of a file, and logs what was excluded.
func eachVector[T any](t *testing.T, name string, fn func(t *testing.T, v *T, excluded exclusions)) {
	t.Helper()
	excluded := exclusions{}
	recordings.Each(t, name, func(t *testing.T, _ []byte, v *T) { fn(t, v, excluded) })
	for _, rule := range slices.Sorted(maps.Keys(excluded)) {
		t.Logf("%s: %d with an exclusion: %s", name, excluded[rule], rule)
	}
}

func vectorResults(results []plan.Result) []recordings.Result {
	out := []recordings.Result{}
	for _, r := range results {
		v := recordings.Result{Action: string(r.Action), Target: r.Target, Message: r.Message}
		if r.Err != nil {
			v.Error = r.Err.Error()
		}
		if !r.BackoffUntil.IsZero() {
			v.BackoffUntil = r.BackoffUntil.UTC().Format("2006-01-02T15:04:05.999999999Z")
		}
		out = append(out, v)
	}
	return out
}

// rendered makes entries comparable, and their differences readable.
func rendered(trace []entry) []string {
	lines := make([]string, len(trace))
	for i, e := range trace {
		e = maps.Clone(e)
		if _, ok := e["t"]; ok {
			e["t"] = e.Time()
		}
		line, err := json.Marshal(e)
		if err != nil {
			line = []byte(fmt.Sprint(e))
		}
		lines[i] = string(line)
	}
	return lines
}

// checkSteps fails when the entries of one instance are not in the order of a
// kill: sorting by step would hide that. A hook that is not cancelled may end at any
// time.
func checkSteps(t *testing.T, trace []entry) {
	t.Helper()
	last := map[string]int{}
	for _, e := range trace {
		if e.Text("id") == "" || e.Text("op") == "HookEnd" {
			continue
		}
		step := e.Step()
		if step < last[e.Text("id")] {
			t.Errorf("out of order: %v", e)
		}
		last[e.Text("id")] = step
	}
}

const noIP = "failed to find networking container: "

// shortenNoIP cuts the kubelet's data structures off an error text.
func shortenNoIP(trace []entry, excluded exclusions) []entry {
	out := make([]entry, len(trace))
	for i, e := range trace {
		out[i] = maps.Clone(e)
		for _, key := range []string{"error", "message"} {
			if before, _, found := strings.Cut(e.Text(key), noIP); found {
				out[i][key] = before + noIP
				if excluded != nil && key == "error" {
					excluded[ruleNoIPText]++
				}
			}
		}
	}
	return out
}

// checkRecords fails when a kill's record was not completed, says neither how it
// ended nor why that is not known, or does not say what StopContainer was given.
func checkRecords(t *testing.T, f *fakeRuntime) {
	t.Helper()
	timeouts := map[string]float64{}
	for _, e := range f.ops("StopContainer") {
		timeouts[e.Text("id")] = e["timeout"].(float64)
	}
	for _, rec := range f.lastRecords() {
		if rec.Phase != "Done" || (rec.Outcome == "" && rec.Error == "") || rec.FinishTime == nil || rec.StopTimeoutSeconds == nil {
			t.Errorf("record of %s is not complete: %+v", rec.Container, rec)
			continue
		}
		if float64(*rec.StopTimeoutSeconds) != timeouts[rec.ContainerID] || *rec.StopTimeoutSeconds < plan.MinimumGracePeriod {
			t.Errorf("record of %s: stopTimeoutSeconds %d, StopContainer got %v", rec.Container, *rec.StopTimeoutSeconds, timeouts[rec.ContainerID])
		}
	}
	if len(f.lastRecords()) < len(timeouts) {
		t.Errorf("%d containers were stopped, but only %d records were written", len(timeouts), len(f.lastRecords()))
	}
}

func diffLines(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-kubelet +executor):\n%s", what, diff)
	}
}
