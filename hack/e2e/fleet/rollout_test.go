// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

const (
	v1, v2 = localstack.ImageV1, localstack.ImageV2
	// missing is an image that no registry has.
	missing = "managedworkload.dev/testprogram:missing"
)

func rolling(fields string) string { return "updateStrategy: {rollingUpdate: {" + fields + "}}" }

// startRolledOut is start, and waits until the revision counts as rolled out.
func startRolledOut(t *testing.T, spec ...string) *workload {
	t.Helper()
	w := start(t, spec...)
	w.awaitRolledOut()
	return w
}

func (w *workload) awaitRolledOut() {
	w.t.Helper()
	w.AwaitReady()
	w.AwaitObject("the revision is rolled out", func(mw *v1alpha1.ManagedWorkload) bool {
		revisions := w.kubectl("get", "mw", w.Name, "-o", "jsonpath={.status.currentRevision} {.status.updateRevision}")
		current, update, _ := strings.Cut(revisions, " ")
		return mw.Status.ObservedGeneration == mw.Generation && update != "" && current == update
	})
}

// awaitHeld waits until the roll-out has done what it may.
func (w *workload) awaitHeld() {
	w.t.Helper()
	w.AwaitObject("the roll-out has done what it may", func(mw *v1alpha1.ManagedWorkload) bool {
		return mw.Status.ObservedGeneration == mw.Generation && meta.IsStatusConditionFalse(mw.Status.Conditions, v1alpha1.ConditionReconciling)
	})
}

// now are the NodeWorkloads as they are.
func (w *workload) now() shares {
	w.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := env.Kube.List(w.t.Context(), list, client.InNamespace(w.Namespace)); err != nil {
		w.t.Fatalf("list NodeWorkloads: %v", err)
	}
	s := shares{}
	for i := range list.Items {
		s[list.Items[i].Spec.NodeName] = &list.Items[i]
	}
	return s
}

// wantSame fails unless the processes of these nodes still run.
func (w *workload) wantSame(before map[string]int, nodes ...string) {
	w.t.Helper()
	after := w.processes()
	for _, node := range nodes {
		if after[node] != before[node] {
			w.t.Errorf("%s: PID %d before, %d after", node, before[node], after[node])
		}
	}
}

// A roll-out takes as many nodes at once as its budget allows and never more, by what
// the nodes report and by what the containers wrote. It is what was planned.
func TestRollOutKeepsBudget(t *testing.T) {
	two := rolling("maxUnavailable: 2")
	w := startRolledOut(t, two)
	f, planned := w.follow(), w.plan(v2, two)
	w.apply(v2, two)
	f.until("all nodes run it", func(s shares) bool { return len(s.run(v2)) == nodes })
	w.awaitRolledOut()
	if f.unavailable != 2 {
		t.Errorf("at most %d nodes were unavailable, want 2", f.unavailable)
	}
	if down := w.downAtOnce(0); down != 2 {
		t.Errorf("at most %d containers were down at once, want 2", down)
	}
	w.wantStarts(2)
	w.wantAsPlanned(planned, f.changed[v2])
}

// Probes, grace periods and resources reach all nodes without a kill. A restart that is
// asked for goes through the budget like any other change.
func TestRestartsOnlyWhereAsked(t *testing.T) {
	w := startRolledOut(t, rolling("maxUnavailable: 2"))
	f, before, first := w.follow(), w.processes(), w.Get().Status.UpdateRevision
	w.kubectl("patch", "mw", w.Name, "--type=json", "-p", `[
		{"op": "replace", "path": "/spec/template/spec/terminationGracePeriodSeconds", "value": 11},
		{"op": "add", "path": "/spec/template/spec/containers/0/resources", "value": {"limits": {"cpu": "700m", "memory": "128Mi"}}},
		{"op": "replace", "path": "/spec/template/spec/containers/0/readinessProbe/periodSeconds", "value": 2}]`)
	f.until("all nodes have the change", func(s shares) bool {
		return len(s.where(func(nw *v1alpha1.NodeWorkload) bool {
			spec := &nw.Spec.Template.Spec
			return available(nw) && *spec.TerminationGracePeriodSeconds == 11 && spec.Containers[0].ReadinessProbe.PeriodSeconds == 2 &&
				limitIs(nw, "128Mi")
		})) == nodes
	})
	w.awaitRolledOut()
	second := w.Get().Status
	if second.UpdateRevision == first || second.UpdatedNodes != nodes {
		t.Errorf("update revision %q after %q, on %d nodes", second.UpdateRevision, first, second.UpdatedNodes)
	}
	w.wantProcesses(before)

	const at = "2026-01-02T03:04:05Z"
	w.kubectl("patch", "mw", w.Name, "--type=merge", "-p", `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"`+at+`"}}}}}`)
	f.until("all nodes have restarted", func(s shares) bool {
		return len(s.where(func(nw *v1alpha1.NodeWorkload) bool {
			return available(nw) && nw.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == at
		})) == nodes
	})
	w.awaitRolledOut()
	if down := w.downAtOnce(0); f.unavailable != 2 || down != 2 {
		t.Errorf("at most %d nodes were unavailable and %d containers down at once, want 2 of each", f.unavailable, down)
	}
	w.wantStarts(2)
}

// limitIs reports whether the runtime has given the container a memory limit.
func limitIs(nw *v1alpha1.NodeWorkload, want string) bool {
	statuses := nw.Status.ContainerStatuses
	return len(statuses) == 1 && statuses[0].Resources != nil && statuses[0].Resources.Limits.Memory().String() == want
}

// A bad image stops at the first nodes, which keep their containers, and is reported by
// node. The revert costs nothing.
func TestBadImageAndRevert(t *testing.T) {
	deadline := "progressDeadlineSeconds: 5"
	w := startRolledOut(t, deadline)
	f, before := w.follow(), w.processes()
	w.apply(missing, deadline)
	f.until("a node is to run it", func(s shares) bool { return len(s.have(missing)) > 0 })
	stopped := f.shares.have(missing)
	mw := w.AwaitObject("the roll-out is stalled", func(mw *v1alpha1.ManagedWorkload) bool {
		return meta.IsStatusConditionTrue(mw.Status.Conditions, v1alpha1.ConditionStalled)
	})
	stalled := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionStalled)
	if len(stopped) != 1 || !strings.Contains(stalled.Message, stopped[0]) {
		t.Errorf("%s: %q, want it to name %q", stalled.Reason, stalled.Message, stopped)
	}
	if mw.Status.ReadyNodes != nodes {
		t.Errorf("%d nodes are ready, want all %d: their containers run", mw.Status.ReadyNodes, nodes)
	}
	w.wantProcesses(before)
	w.apply(v1, deadline)
	f.until("no node is to run it", func(s shares) bool { return len(s.run(v1)) == nodes })
	w.awaitRolledOut()
	if f.most[missing] != 1 {
		t.Errorf("%d nodes were to run the bad image, want 1", f.most[missing])
	}
	w.wantProcesses(before)
}

// An image that appears late is rolled out when it is there. Until then the old
// containers run.
func TestImageThatAppearsLate(t *testing.T) {
	two := rolling("maxUnavailable: 2")
	w := startRolledOut(t, two)
	late := "managedworkload.dev/testprogram:" + w.Namespace // that no earlier run pushed
	f, before := w.follow(), w.processes()
	w.apply(late, two)
	f.until("two nodes wait for it", func(s shares) bool { return len(s.have(late)) == 2 })
	w.AwaitEvent("Failed", "Failed to pull image")
	w.wantProcesses(before)
	if err := env.Stack.Push(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	f.until("all nodes run it", func(s shares) bool { return len(s.run(late)) == nodes })
	if down := w.downAtOnce(0); down > 2 {
		t.Errorf("%d containers were down at once, want 2 at most", down)
	}
	w.wantStarts(2)
}

// A paused roll-out changes no further node, and a node that is new gets what was rolled
// out before. It continues where it stopped.
func TestPause(t *testing.T) {
	w := startRolledOut(t)
	f, before := w.follow(), w.processes()
	w.apply(v2)
	f.until("a node is to run it", func(s shares) bool { return len(s.have(v2)) > 0 })
	w.kubectl("patch", "mw", w.Name, "--type=merge", "-p", `{"spec":{"paused":true}}`)
	w.AwaitObject("the pause is seen", func(mw *v1alpha1.ManagedWorkload) bool { return mw.Status.ObservedGeneration == mw.Generation })
	f.until("what was changed is available", func(s shares) bool { return len(s.where(available)) == nodes })
	updated, rest := f.shares.have(v2), f.shares.have(v1)
	if len(rest) == 0 {
		t.Fatal("the pause came too late")
	}
	anew := f.shares[rest[0]]
	w.kubectl("delete", "nw", anew.Name)
	f.until("the deleted one is there again", func(s shares) bool {
		nw := s[rest[0]]
		return nw != nil && nw.UID != anew.UID && available(nw)
	})
	if diff := cmp.Diff(updated, f.shares.have(v2)); diff != "" {
		t.Errorf("nodes of the new revision in the pause (-before +after):\n%s", diff)
	}
	w.wantSame(before, rest[1:]...)
	paused := w.processes()
	w.kubectl("patch", "mw", w.Name, "--type=merge", "-p", `{"spec":{"paused":null}}`)
	f.until("all nodes run it", func(s shares) bool { return len(s.run(v2)) == nodes })
	w.wantSame(paused, updated...)
}

// A partition keeps nodes on the revision before; a lower one only adds nodes.
func TestPartition(t *testing.T) {
	w := startRolledOut(t)
	f, before := w.follow(), w.processes()
	var updated []string
	for _, step := range []struct {
		partition string
		want      int
	}{{"3", 2}, {"1", 4}, {"0", nodes}} {
		w.apply(v2, rolling("partition: "+step.partition))
		f.until("the others run it", func(s shares) bool { return len(s.run(v2)) == step.want })
		w.awaitHeld()
		have := w.now().have(v2)
		if len(have) != step.want {
			t.Errorf("partition %s: %q have it, want %d nodes", step.partition, have, step.want)
		}
		for _, node := range updated {
			if !slices.Contains(have, node) {
				t.Errorf("partition %s: %q have it, %s no longer", step.partition, have, node)
			}
		}
		w.wantSame(before, w.now().have(v1)...)
		updated = have
	}
	w.wantStarts(2)
}

// A canary: only the nodes with a label are updated until the selector is taken away.
func TestCanary(t *testing.T) {
	const canary = "node-4"
	w := startRolledOut(t)
	f, before := w.follow(), w.processes()
	w.kubectl("label", "node", canary, "canary=yes")
	t.Cleanup(func() {
		if _, err := env.Stack.Kubectl(context.Background(), "label", "node", canary, "canary-"); err != nil {
			t.Error(err)
		}
	})
	w.apply(v2, rolling(`nodeSelector: {canary: "yes"}`))
	f.until("the canary runs it", func(s shares) bool { return len(s.run(v2)) > 0 })
	w.awaitHeld()
	if diff := cmp.Diff([]string{canary}, w.now().have(v2)); diff != "" {
		t.Errorf("nodes that have it (-want +got):\n%s", diff)
	}
	w.wantSame(before, w.now().have(v1)...)
	w.apply(v2)
	f.until("all nodes run it", func(s shares) bool { return len(s.run(v2)) == nodes })
	w.wantStarts(2)
}

// OnDelete: a node changes when its NodeWorkload is deleted, and not before.
func TestOnDelete(t *testing.T) {
	onDelete := "updateStrategy: {type: OnDelete}"
	w := startRolledOut(t, onDelete)
	f, before := w.follow(), w.processes()
	w.apply(v2, onDelete)
	w.awaitHeld()
	w.wantProcesses(before)
	node := env.Stack.Nodes[1].NodeName()
	w.kubectl("delete", "nw", f.shares[node].Name)
	f.until("the node runs it", func(s shares) bool { return slices.Contains(s.run(v2), node) })
	w.awaitHeld()
	if diff := cmp.Diff([]string{node}, w.now().have(v2)); diff != "" {
		t.Errorf("nodes that have it (-want +got):\n%s", diff)
	}
	w.wantSame(before, w.now().have(v1)...)
}

// A node that is away holds nothing up: it keeps its revision, its container runs on, and
// it gets the update when it is back.
func TestRollOutWhileANodeIsAway(t *testing.T) {
	w := startRolledOut(t)
	f, before, node := w.follow(), w.processes(), env.Stack.Nodes[4]
	env.Away(t, node)
	w.AwaitObject("one node is unreachable", func(mw *v1alpha1.ManagedWorkload) bool { return mw.Status.UnreachableNodes == 1 })
	w.apply(v2)
	f.until("the others run it", func(s shares) bool { return len(s.run(v2)) == nodes-1 })
	if diff := cmp.Diff([]string{node.NodeName()}, f.shares.have(v1)); diff != "" {
		t.Errorf("nodes of the old revision (-want +got):\n%s", diff)
	}
	if got := len(w.Find(node.NodeName(), "signal SIGTERM")); got != 0 {
		t.Errorf("the container of the node that is away saw %d SIGTERMs", got)
	}
	cgroups(t, before[node.NodeName()]) // fails unless the process is there
	env.Back(t, node)
	f.until("the node that is back runs it", func(s shares) bool { return len(s.run(v2)) == nodes })
	w.awaitRolledOut()
	w.wantStarts(2)
	if f.unavailable > 1 {
		t.Errorf("%d nodes were unavailable at once, want 1 at most", f.unavailable)
	}
}
