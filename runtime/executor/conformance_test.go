// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// exclusions counts, by rule, in how many vectors something is not compared.
// The rules are differences on purpose (docs/kubelet-differences.md); each drops
// no more than what it names.
type exclusions map[string]int

const (
	// A hook that is still running when the grace period is over is cancelled
	// here; the kubelet lets it run on, and its end and its event come later.
	ruleHookCancelled = "overrunning preStop hook is cancelled"
	// A container that the pod does not name is killed here by its record; the
	// kubelet cannot kill it at all. Only the name's own entries are dropped.
	ruleRemovedKilled = "container that the pod does not name is killed"
	// The kubelet's error prints its own data structures.
	ruleNoIPText = "error text of a hook without a pod IP"
)

// eachVector calls fn for every line of a file, decoded into a T whose fields
// have to be all there are.
func eachVector[T any](t *testing.T, name string, fn func(t *testing.T, v *T, excluded exclusions)) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "conformance", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, excluded := 0, exclusions{}
	scanner := bufio.NewScanner(unzipped)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		lines++
		v := new(T)
		decoder := json.NewDecoder(bytes.NewReader(scanner.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(v); err != nil {
			t.Fatalf("line %d: %v", lines, err)
		}
		var id struct{ ID string }
		if err := json.Unmarshal(scanner.Bytes(), &id); err != nil {
			t.Fatalf("line %d: %v", lines, err)
		}
		t.Run(id.ID, func(t *testing.T) { fn(t, v, excluded) })
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	if lines == 0 {
		t.Fatalf("%s holds no vector", name)
	}
	t.Logf("%s: %d vectors compared", name, lines)
	for _, rule := range slices.Sorted(maps.Keys(excluded)) {
		t.Logf("%s: %d with an exclusion: %s", name, excluded[rule], rule)
	}
}

// vectorResult is a result as the vectors write it.
type vectorResult struct {
	Action       string `json:"action"`
	Target       string `json:"target"`
	Error        string `json:"error"`
	Message      string `json:"message"`
	BackoffUntil string `json:"backoffUntil,omitempty"`
}

func vectorResults(results []plan.Result) []vectorResult {
	out := []vectorResult{}
	for _, r := range results {
		v := vectorResult{Action: string(r.Action), Target: r.Target, Message: r.Message}
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

// sortKills sorts the kill results at the beginning: their order is not defined
// in the kubelet.
func sortKills(results []vectorResult) []vectorResult {
	results = slices.Clone(results)
	n := slices.IndexFunc(results, func(r vectorResult) bool { return r.Action != string(plan.ActionKillContainer) })
	if n < 0 {
		n = len(results)
	}
	slices.SortStableFunc(results[:n], func(a, b vectorResult) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Message, b.Message))
	})
	return results
}

// stepOf is where in a container's kill an entry stands.
func stepOf(e entry) int {
	switch e.str("op") {
	case "Event":
		return map[string]int{"Killing": 1, "FailedPreStopHook": 5}[e.str("reason")]
	case "HookStart":
		return 2
	case "ExecSync", "HTTPRequest":
		return 3
	case "HookEnd":
		return 4
	case "StopContainer":
		return 6
	case "StopContainerEnd":
		return 7
	default:
		return 8
	}
}

// canonical sorts what goroutines did at one time: by time, container, step and
// ID, as the vectors are.
func canonical(trace []entry) []entry {
	trace = slices.Clone(trace)
	key := func(e entry) string {
		if e.str("op") == "StopPodSandbox" || e.str("op") == "Return" {
			return "~" + e.str("op")[:1]
		}
		return e.str("container")
	}
	slices.SortStableFunc(trace, func(a, b entry) int {
		return cmp.Or(
			cmp.Compare(timeOf(a), timeOf(b)),
			boolCompare(key(a)[:min(1, len(key(a)))] == "~", key(b)[:min(1, len(key(b)))] == "~"),
			cmp.Compare(key(a), key(b)), cmp.Compare(stepOf(a), stepOf(b)),
			cmp.Compare(a.str("id"), b.str("id")))
	})
	return trace
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// timeOf is when an entry was made, to the microsecond.
func timeOf(e entry) float64 {
	t, _ := e["t"].(float64)
	return math.Round(t*1e6) / 1e6
}

// rendered makes entries comparable, and their differences readable.
func rendered(trace []entry) []string {
	lines := make([]string, len(trace))
	for i, e := range trace {
		e = maps.Clone(e)
		if _, ok := e["t"]; ok {
			e["t"] = timeOf(e)
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
// kill: sorting by step would hide that.
func checkSteps(t *testing.T, trace []entry) {
	t.Helper()
	last := map[string]int{}
	for _, e := range trace {
		if e.str("id") == "" {
			continue
		}
		step := stepOf(e)
		if step < last[e.str("id")] {
			t.Errorf("out of order: %v", e)
		}
		last[e.str("id")] = step
	}
}

// dropHookEnds drops from both traces what follows from a hook that was
// cancelled here, if the kubelet's ran on until then at least.
func dropHookEnds(want, got []entry, cut map[string]float64, excluded exclusions) ([]entry, []entry) {
	if len(cut) == 0 {
		return want, got
	}
	excluded[ruleHookCancelled]++
	// Events and requests carry no ID; the name stands for all of its instances.
	byName, first := map[string]float64{}, math.Inf(1)
	for _, at := range cut {
		first = min(first, at)
	}
	for _, e := range got {
		if at, ok := cut[e.str("id")]; ok {
			byName[e.str("container")] = at
		}
	}
	late := func(e entry) bool {
		if at, ok := cut[e.str("id")]; ok {
			return e.str("op") == "HookEnd" && timeOf(e) >= at
		}
		if e.str("reason") == "LifecycleHTTPFallback" {
			return timeOf(e) >= first // it does not say which container's
		}
		at, ok := byName[e.str("container")]
		return ok && timeOf(e) >= at && (e.str("reason") == "FailedPreStopHook" || e.str("op") == "HTTPRequest")
	}
	return slices.DeleteFunc(slices.Clone(want), late), slices.DeleteFunc(slices.Clone(got), late)
}

// dropRemoved drops from both traces the containers that the pod does not name.
func dropRemoved(pod *corev1.Pod, want, got []entry, excluded exclusions) ([]entry, []entry) {
	removed := func(e entry) bool {
		name := e.str("container")
		return name != "" && podspec.Container(pod, name) == nil
	}
	if slices.ContainsFunc(got, removed) {
		excluded[ruleRemovedKilled]++
	}
	return slices.DeleteFunc(slices.Clone(want), removed), slices.DeleteFunc(slices.Clone(got), removed)
}

func dropRemovedResults(pod *corev1.Pod, results []vectorResult) []vectorResult {
	return slices.DeleteFunc(slices.Clone(results), func(r vectorResult) bool {
		return r.Action == string(plan.ActionKillContainer) && podspec.Container(pod, r.Target) == nil
	})
}

const noIP = "failed to find networking container: "

// shortenNoIP cuts the kubelet's data structures off an error text.
func shortenNoIP(trace []entry, excluded exclusions) []entry {
	out := make([]entry, len(trace))
	for i, e := range trace {
		out[i] = maps.Clone(e)
		for _, key := range []string{"error", "message"} {
			if before, _, found := strings.Cut(e.str(key), noIP); found {
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
		timeouts[e.str("id")] = e["timeout"].(float64)
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
