// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// everywhere, in a KillRequest, chooses all nodes.
const everywhere = "nodes: {all: true}"

const killRequest = `apiVersion: managedworkload.dev/v1alpha1
kind: KillRequest
metadata: {name: %s}
spec:
  workloadName: %s
  reason: leaks memory
`

// ask makes a KillRequest with lines of its spec, as alice. It restarts unless they say
// otherwise.
func (w *workload) ask(name string, spec ...string) *v1alpha1.KillRequest {
	w.t.Helper()
	if !slices.ContainsFunc(spec, func(line string) bool { return strings.HasPrefix(line, "action: ") }) {
		spec = append(spec, "action: Restart")
	}
	text := fmt.Sprintf(killRequest, name, w.Name) + "  " + strings.Join(spec, "\n  ") + "\n"
	file := filepath.Join(w.Dir, name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.kubectl("create", "--as=alice", "--as-group=system:masters", "-f", file)
	return &v1alpha1.KillRequest{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
}

// names are those of the nodes, sorted.
func names() (names []string) {
	for _, n := range env.Stack.Nodes {
		names = append(names, n.NodeName())
	}
	return slices.Sorted(slices.Values(names))
}

// instances are the runtime's IDs of the container by node.
func (w *workload) instances() map[string]string {
	w.t.Helper()
	ids := map[string]string{}
	for node, nw := range w.now() {
		_, ids[node], _ = strings.Cut(nw.Status.ContainerStatuses[0].ContainerID, "://")
	}
	return ids
}

// stopped are the nodes whose container got SIGTERM, in the order in which it did so first.
func (w *workload) stopped() []string {
	w.t.Helper()
	nodes := slices.DeleteFunc(names(), func(node string) bool { return len(w.Find(node, "signal SIGTERM")) == 0 })
	slices.SortFunc(nodes, func(a, b string) int {
		return w.Find(a, "signal SIGTERM")[0].Time.Compare(w.Find(b, "signal SIGTERM")[0].Time)
	})
	return nodes
}

// awaitRestarted waits until no node has a request any more and all are ready, and fails
// unless each container was restarted once.
func (w *workload) awaitRestarted(f *follower) {
	w.t.Helper()
	f.until("all requests are over", func(s shares) bool {
		return len(s.where(func(nw *v1alpha1.NodeWorkload) bool {
			return ready(nw) && len(nw.Spec.Requests)+len(nw.Status.Requests) == 0 && nw.Status.KillCount == 1
		})) == nodes
	})
	w.wantStarts(2)
}

// wantKills fails unless these nodes, and no other, have one kill: of the instance that they
// had before, for the request, in the name of who made it. The kills of an Ordered request
// follow one another.
func (w *workload) wantKills(kr *v1alpha1.KillRequest, before map[string]string, want ...string) {
	w.t.Helper()
	trigger, what := v1alpha1.TriggerRestartRequested, "restart requested, will be restarted"
	if kr.Spec.Action == v1alpha1.RequestStop {
		trigger, what = v1alpha1.TriggerStopRequested, "stop requested"
	}
	message := "Container c " + what + ": KillRequest " + kr.Name + ": leaks memory"
	wanted, got := map[string][]record{}, map[string][]record{}
	var kills []v1alpha1.KillRecord
	for _, node := range want {
		wanted[node] = []record{{before[node], message, "alice", trigger, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful, 10, v1alpha1.GraceSourcePod}}
	}
	for node, nw := range w.now() {
		for _, k := range nw.Status.Kills {
			kills = append(kills, k)
			got[node] = append(got[node], record{k.ContainerID, k.Message, k.RequestedBy, k.Trigger, k.Phase, k.Outcome, k.Grace.Seconds, k.Grace.Source})
		}
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		w.t.Fatalf("kills by node (-want +recorded):\n%s", diff)
	}
	if kr.Spec.Order != v1alpha1.RequestOrdered {
		return
	}
	slices.SortFunc(kills, func(a, b v1alpha1.KillRecord) int { return a.StartTime.Compare(b.StartTime.Time) })
	for i := 1; i < len(kills); i++ {
		if kills[i].StartTime.Before(kills[i-1].FinishTime) {
			w.t.Errorf("the kill %q began before %q had ended", kills[i].Summary, kills[i-1].Summary)
		}
	}
}

// record is what is compared of a kill record.
type record struct {
	Instance, Message, RequestedBy string
	Trigger                        v1alpha1.KillTrigger
	Phase                          v1alpha1.KillPhase
	Outcome                        v1alpha1.KillOutcome
	GraceSeconds                   int64
	GraceSource                    v1alpha1.GraceSource
}

// outcome is what came of a request on a node, and of its container there.
type outcome struct {
	Phase            v1alpha1.RequestPhase
	Message          string
	Container        v1alpha1.RequestPhase
	ContainerMessage string
	ContainerID      string
}

// restarted is the outcome where an instance was restarted.
func restarted(id string) outcome {
	return outcome{Phase: v1alpha1.RequestSucceeded, Container: v1alpha1.RequestSucceeded, ContainerMessage: "restarted", ContainerID: id}
}

// ended is the outcome where what came after an instance did not start.
func ended(id string) outcome {
	const message = "the new instance ended with exit code 1"
	return outcome{Phase: v1alpha1.RequestFailed, Message: "container c: " + message, Container: v1alpha1.RequestFailed, ContainerMessage: message, ContainerID: id}
}

// wantOutcomes fails unless a request that is over says so of its nodes, in numbers, by name and
// in its conditions.
func wantOutcomes(t *testing.T, kr *v1alpha1.KillRequest, want map[string]outcome) {
	t.Helper()
	got, done, failed := map[string]outcome{}, 0, 0
	for _, n := range kr.Status.NodeStates {
		o := outcome{Phase: n.Phase, Message: n.Message}
		for _, c := range n.Containers {
			o.Container, o.ContainerMessage, o.ContainerID = c.Phase, c.Message, c.ContainerID
		}
		got[n.NodeName] = o
	}
	for _, o := range want {
		if o.Phase == v1alpha1.RequestSucceeded {
			done++
		} else {
			failed++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("KillRequest %s by node (-want +got):\n%s", kr.Name, diff)
	}
	st := &kr.Status
	if int(st.Nodes) != len(want) || int(st.DoneNodes) != done || int(st.FailedNodes) != failed {
		t.Errorf("KillRequest %s: %d nodes, %d done, %d failed, want %d, %d and %d", kr.Name, st.Nodes, st.DoneNodes, st.FailedNodes, len(want), done, failed)
	}
	is := func(kind string) bool { return meta.IsStatusConditionTrue(st.Conditions, kind) }
	if complete := failed == 0; is(v1alpha1.ConditionComplete) != complete || is(v1alpha1.ConditionFailed) == complete || (st.Phase == v1alpha1.RequestSucceeded) != complete {
		t.Errorf("KillRequest %s: phase %s, conditions %+v with %d failed nodes", kr.Name, st.Phase, st.Conditions, failed)
	}
}

// isHeld reports whether a node says that it keeps containers stopped.
func isHeld(nw *v1alpha1.NodeWorkload) bool {
	return meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionHeld)
}

// ready reports whether a node says that it is ready.
func ready(nw *v1alpha1.NodeWorkload) bool {
	return meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionReady)
}
