// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// plan is what -o json of kubectl mw plan says, as far as it matters here.
type plan struct {
	Batches [][]struct {
		Node  string
		Kills []kill
	}
	Ends, Waiting []struct{ Node string }
}

// kill is one as planned, and as recorded.
type kill struct {
	Container, Message string
	Trigger            v1alpha1.KillTrigger
	GraceSeconds       int64
	GraceSource        v1alpha1.GraceSource
}

// plan asks the plugin what apply would do, which kills nothing.
func (w *workload) plan(image string, spec ...string) (p plan) {
	w.t.Helper()
	before := w.processes()
	out, errOut, code := w.Kubectl("", "mw", "plan", "-f", w.write(image, spec...), "-o", "json")
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != 1 {
		w.t.Fatalf("plan: exit code %d, want 1: %v\n%s%s", code, err, out, errOut)
	}
	w.wantProcesses(before)
	return p
}

// wantAsPlanned fails unless the nodes changed, in the order given, are those of the plan,
// batch by batch, and each recorded the planned kills and no other. The next node is changed
// once one of a batch is available, so that batches overlap: their nodes do not.
func (w *workload) wantAsPlanned(p plan, changed []string) {
	w.t.Helper()
	if len(p.Ends)+len(p.Waiting) > 0 || len(p.Batches) != (nodes+1)/2 {
		w.t.Errorf("want all nodes in batches of two: %+v", p)
	}
	var planned, happened [][]string
	plannedKills, kills := map[string][]kill{}, map[string][]kill{}
	for _, batch := range p.Batches {
		var names []string
		for _, n := range batch {
			names = append(names, n.Node)
			plannedKills[n.Node] = n.Kills
		}
		slices.Sort(names)
		size := min(len(batch), len(changed))
		planned, happened = append(planned, names), append(happened, slices.Sorted(slices.Values(changed[:size])))
		changed = changed[size:]
	}
	if diff := cmp.Diff(planned, happened); diff != "" || len(changed) > 0 {
		w.t.Errorf("batches, and after them %q (-planned +happened):\n%s", changed, diff)
	}
	for node, nw := range w.now() {
		for _, k := range nw.Status.Kills {
			kills[node] = append(kills[node], kill{k.Container, k.Message, k.Trigger, k.Grace.Seconds, k.Grace.Source})
		}
	}
	if diff := cmp.Diff(plannedKills, kills); diff != "" {
		w.t.Errorf("kills by node (-planned +recorded):\n%s", diff)
	}
}
