// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/hack/simnode"
)

// A few nodes go through what needs no restart: the bench itself works.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	o := options{
		nodes: 4, workloads: 2, templateBytes: 1000, rate: 20, storm: 100, window: time.Second, badFor: time.Second,
		maxUnavailable: "50%", watchPerNode: true, run: regexp.MustCompile("object|steady|roll-out|bad image"),
		objects: 2, objectBytes: 100_000,
		times: simnode.Times{Create: 100 * time.Millisecond, Pull: 100 * time.Millisecond, Stop: 100 * time.Millisecond, Ready: 100 * time.Millisecond},
	}
	f, err := start(t.Context(), o)
	if err != nil && strings.HasPrefix(err.Error(), "missing: ") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = f.run(t.Context())
	if err != nil {
		t.Errorf("%v\n%s", err, f.stack.Manager.Tail())
	}
	if err := f.close(t.Context()); err != nil {
		t.Error(err)
	}
	results := map[string]float64{}
	for _, p := range f.phases {
		for _, r := range p.Results {
			results[p.Name+": "+r.Name] = r.Value
		}
		if strings.Contains(p.Name, "object") { // no reports, and no gauges
			continue
		}
		if p.CPU["kube-apiserver"] <= 0 || p.Peak["manager"] <= 0 || p.Requests["PUT nodeworkloads/status"] <= 0 || p.Manager["PUT"] <= 0 {
			t.Errorf("%s was not measured: %+v", p.Name, p)
		}
		if p.Name != "start" && (p.Latency.Count == 0 || p.Latency.Max < p.Latency.P50 || p.Latency.Max > flipTimeout.Milliseconds()) {
			t.Errorf("%s: latency %+v", p.Name, p.Latency)
		}
	}
	if results["roll-out: over the least"] < .9 || results["bad image: containers killed"] != 0 || results["bad image: reached"] < 1 || results["bad image: reached"] > 4 {
		t.Errorf("results %v", results)
	}
	if results["objects to all nodes: received"] < 4*.2 || results["another object: received"] < 4*.1 || results["another object: received"] > 4*.2 {
		t.Errorf("of 2 objects of 0.1 MB for 4 nodes: %v", results)
	}
	if results["bad image: reached without a revert"] != 2 || results["bad image: budget"] != 2 {
		t.Errorf("of 4 nodes with a budget of 50 %%: %v", results)
	}
}

func TestSummarize(t *testing.T) {
	var took []time.Duration
	for i := range 200 {
		took = append(took, time.Duration(200-i)*time.Millisecond)
	}
	if diff := cmp.Diff(Latency{Count: 200, P50: 101, P99: 199, Max: 200}, summarize(took)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := summarize(nil); got != (Latency{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestList(t *testing.T) {
	got := list(map[string]float64{"POST b": 20, "PUT a": 25, "GET c": .05}, 10)
	if want := "2 POST b, 2.5 PUT a"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
