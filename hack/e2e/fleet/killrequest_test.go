// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// A KillRequest takes the nodes in its order, and stops where it may not continue. Each has a
// workload of its own, so that all of them are carried out at the same time.
func TestKillRequests(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Ordered": requestOrdered, "RollOut": requestWithinBudget, "BesideARollOut": requestBesideRollOut,
		"FailurePolicy": requestFails, "Deadline": requestIsLate, "Revision": requestForRevision, "Stop": requestStops,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// One node after another, by name: the next when the new instance of the one before has run
// for as long as the request says.
func requestOrdered(t *testing.T) {
	w := startRolledOut(t)
	f, before := w.followBy(ready), w.instances()
	kr := w.ask("ordered", everywhere, "order: Ordered", "minStartedSeconds: 2")
	w.kubectl("wait", "kr/ordered", "--for=condition=Complete", "--timeout="+harness.Timeout.String())
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestSucceeded)
	w.awaitRestarted(f)
	if diff := cmp.Diff(names(), w.stopped()); diff != "" {
		t.Errorf("nodes in the order in which their containers got SIGTERM (-want +got):\n%s", diff)
	}
	for i, node := range names()[1:] {
		last := w.AwaitFind(names()[i], "started", 2)[1].Time
		if waited := w.Find(node, "signal SIGTERM")[0].Time.Sub(last); waited < 2*time.Second {
			t.Errorf("the container of %s got SIGTERM %s after that of %s had started again, want 2s at least", node, waited, names()[i])
		}
	}
	if down := w.downAtOnce(0); f.unavailable != 1 || down != 1 {
		t.Errorf("at most %d nodes were not ready and %d containers down at once, want 1 of each", f.unavailable, down)
	}
	w.wantKills(kr, before, names()...)
	want := map[string]outcome{}
	for _, node := range names() {
		want[node] = restarted(before[node])
	}
	wantOutcomes(t, kr, want)
	w.AwaitRequestEvent(kr, corev1.EventTypeNormal, "Succeeded", "5 of 5 nodes done")
}

// As many nodes at once as a roll-out may take, and those first that are unavailable already:
// they need no room.
func requestWithinBudget(t *testing.T) {
	w := startRolledOut(t, rolling("maxUnavailable: 2"))
	f, before := w.followBy(ready), w.instances()
	last := names()[nodes-2:]
	for _, n := range env.Stack.Nodes[nodes-2:] {
		if out, err := w.On(n).Exec("c", "http-get", "http://localhost:8080/unready"); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	f.until("two nodes are not ready", func(s shares) bool { return len(s.where(ready)) == nodes-2 })
	kr := w.ask("within", everywhere, "order: RollOut")
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestSucceeded)
	w.awaitRestarted(f)
	if first := slices.Sorted(slices.Values(w.stopped()[:2])); !slices.Equal(first, last) {
		t.Errorf("%q are the first, want those that were unavailable, %q", first, last)
	}
	if down := w.downAtOnce(0); f.unavailable != 2 || down != 2 {
		t.Errorf("at most %d nodes were not ready and %d containers down at once, want 2 of each", f.unavailable, down)
	}
	w.wantKills(kr, before, names()...)
}

// A request and a roll-out that begin at the same time take up one budget, not two.
func requestBesideRollOut(t *testing.T) {
	two := rolling("maxUnavailable: 2")
	w := startRolledOut(t, two)
	f := w.followBy(ready)
	kr := w.ask("beside", everywhere, "order: RollOut", "failurePolicy: Ignore")
	w.apply(v2, two)
	env.AwaitRequest(t, kr, "the request is over", func() bool { return kr.Status.CompletionTime != nil })
	f.until("all nodes run the new template", func(s shares) bool { return len(s.run(v2)) == nodes })
	w.awaitRolledOut()
	if down := w.downAtOnce(0); f.unavailable > 2 || down > 2 {
		t.Errorf("at most %d nodes were not ready and %d containers down at once, want 2 of each", f.unavailable, down)
	}
	for _, node := range names() {
		if starts := len(w.AwaitFind(node, "started", 2)); starts > 3 {
			t.Errorf("%s: %d starts, want one more for the roll-out, and at most one for the request: %q", node, starts, harness.Texts(w.Journal(node)))
		}
	}
}

// Only nodes that run a revision are restarted: the others say which one they have.
func requestForRevision(t *testing.T) {
	w := startRolledOut(t)
	partition := rolling("partition: 3, maxUnavailable: 2")
	f, old := w.followBy(available), w.Get().Status.UpdateRevision
	w.apply(v2, partition)
	f.until("two nodes run the new revision", func(s shares) bool { return len(s.run(v2)) == 2 })
	w.awaitHeld()
	before := w.instances()
	kr := w.ask("revision", everywhere, "failurePolicy: Ignore", "precondition: {revision: "+w.Get().Status.UpdateRevision+"}")
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestFailed)
	want := map[string]outcome{}
	for _, node := range w.now().have(v1) {
		want[node] = outcome{Phase: v1alpha1.RequestFailed, Message: "precondition: the node runs revision " + old}
	}
	for _, node := range w.now().have(v2) {
		want[node] = restarted(before[node])
	}
	wantOutcomes(t, kr, want)
	for node, id := range w.instances() {
		if changed := id != before[node]; changed != (want[node].Phase == v1alpha1.RequestSucceeded) {
			t.Errorf("%s: restarted is %v", node, changed)
		}
	}
}

// What is stopped by labels of nodes stays so, also on a node that gets the label later, until
// the request is deleted.
func requestStops(t *testing.T) {
	w := startRolledOut(t)
	label := func(node, value string) {
		if _, err := env.Stack.Kubectl(context.Background(), "label", "node", node, "stopped"+value); err != nil {
			t.Error(err)
		}
	}
	chosen := []string{names()[1], names()[3]}
	for _, node := range names()[1:4] {
		t.Cleanup(func() { label(node, "-") })
	}
	for _, node := range chosen {
		label(node, "=yes")
	}
	before := w.instances()
	kr := w.ask("stop", "nodes: {selector: {matchLabels: {stopped: \"yes\"}}}", "action: Stop")
	f := w.followBy(ready)
	held := func(want ...string) {
		t.Helper()
		f.until("they are held", func(s shares) bool { return slices.Equal(s.where(isHeld), want) })
		env.AwaitRequest(t, kr, "it says so", func() bool {
			return kr.Status.Phase == v1alpha1.RequestHeld && meta.IsStatusConditionTrue(kr.Status.Conditions, v1alpha1.ConditionHeld) && int(kr.Status.DoneNodes) == len(want)
		})
	}
	held(chosen...)
	label(names()[2], "=yes")
	held(names()[1:4]...)
	w.wantKills(kr, before, names()[1:4]...)
	for _, node := range names()[1:4] {
		if starts := len(w.AwaitFind(node, "started", 1)); starts != 1 {
			t.Errorf("%s: %d starts before the request is deleted, want 1", node, starts)
		}
	}
	if err := env.Kube.Delete(t.Context(), kr, client.Preconditions{UID: &kr.UID}); err != nil {
		t.Fatal(err)
	}
	f.until("all run again", func(s shares) bool { return len(s.where(ready)) == nodes && len(s.where(isHeld)) == 0 })
	w.wantKills(kr, before, names()[1:4]...)
}
