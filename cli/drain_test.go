// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// drainedNode is a node with NodeWorkloads, and a shim that ends those that are deleted.
type drainedNode struct {
	t        *testing.T
	ns, name string

	mu sync.Mutex
	// ended are the NodeWorkloads in the order in which their end was asked for, with the taints
	// of the node then.
	ended []string
}

func newDrainedNode(t *testing.T) *drainedNode {
	t.Helper()
	n := &drainedNode{t: t, ns: newNamespace(t)}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "drain-"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoExecute}}}}
	create(t, node)
	n.name = node.Name
	return n
}

// taints are the taints of a drain that the node has.
func (n *drainedNode) taints() string {
	n.t.Helper()
	node := &corev1.Node{}
	if err := api.Get(context.Background(), client.ObjectKey{Name: n.name}, node); err != nil {
		n.t.Error(err)
	}
	var all []string
	others := 0
	for i := range node.Spec.Taints {
		if taint := &node.Spec.Taints[i]; taint.Key == v1alpha1.TaintDrain {
			all = append(all, taint.ToString())
		} else if taint.Key == "other" {
			others++
		}
	}
	if others != 1 {
		n.t.Errorf("taints %v, want the other one kept", node.Spec.Taints)
	}
	return strings.Join(all, " ")
}

// run makes a workload that runs on the node.
func (n *drainedNode) run(name, class string, tolerations ...corev1.Toleration) {
	n.t.Helper()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: n.ns, Name: name}, Spec: v1alpha1.ManagedWorkloadSpec{Template: templateOf("app:v1")}}
	mw.Spec.Template.Spec.PriorityClassName, mw.Spec.Template.Spec.Tolerations = class, tolerations
	create(n.t, mw)
	nw := &v1alpha1.NodeWorkload{
		ObjectMeta: owned(mw, placement.NodeWorkloadName(name, n.name), "hash"),
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: n.name, Template: mw.Spec.Template},
	}
	nw.Finalizers = []string{v1alpha1.Finalizer}
	create(n.t, nw)
	nw.Status.Kills = []v1alpha1.KillRecord{killRecord("before", v1alpha1.TriggerTermination)}
	update(n.t, nw)
}

func killRecord(id string, trigger v1alpha1.KillTrigger) v1alpha1.KillRecord {
	return v1alpha1.KillRecord{
		ID: id, Container: "app", Trigger: trigger, Phase: v1alpha1.KillPhaseDone, Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: ptr.To[int32](0),
		Grace: v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod, UsedSeconds: 7}, StartTime: metav1.NowMicro(), FinishTime: ptr.To(metav1.NowMicro()),
	}
}

// away makes the node's shim stop responding, as a NodeWorkload has it.
func (n *drainedNode) away(name string) {
	n.t.Helper()
	nw := &v1alpha1.NodeWorkload{}
	if err := api.Get(n.t.Context(), client.ObjectKey{Namespace: n.ns, Name: placement.NodeWorkloadName(name, n.name)}, nw); err != nil {
		n.t.Fatal(err)
	}
	meta.SetStatusCondition(&nw.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionFalse, Reason: "Away"})
	update(n.t, nw)
}

// shim ends what is deleted until the test is over.
func (n *drainedNode) shim() {
	n.t.Helper()
	w, err := api.Watch(n.t.Context(), &v1alpha1.NodeWorkloadList{}, client.MatchingFields{"spec.nodeName": n.name})
	if err != nil {
		n.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for event := range w.ResultChan() {
			nw, ok := event.Object.(*v1alpha1.NodeWorkload)
			if !ok || nw.DeletionTimestamp == nil || len(nw.Finalizers) == 0 || len(nw.Status.Kills) > 1 {
				continue
			}
			n.mu.Lock()
			n.ended = append(n.ended, strings.Split(nw.Name, "-drain-")[0]+" "+n.taints())
			n.mu.Unlock()
			nw.Status.Kills = append([]v1alpha1.KillRecord{killRecord("drain", v1alpha1.TriggerTermination)}, nw.Status.Kills...)
			if err := api.Status().Update(context.Background(), nw); err != nil {
				n.t.Error(err)
			}
			nw.Finalizers = nil
			if err := api.Update(context.Background(), nw); err != nil {
				n.t.Error(err)
			}
		}
	})
	n.t.Cleanup(func() { w.Stop(); wg.Wait() })
}

func (n *drainedNode) drain(args ...string) result {
	n.t.Helper()
	return run(n.t, "default", "", append([]string{"drain", n.name}, args...)...)
}

// A drain ends what a node runs, the lowest priority first, in all namespaces; what tolerates it
// by name stays, and a dry run ends nothing.
func TestDrain(t *testing.T) {
	n := newDrainedNode(t)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "high-"}, Value: 1000}
	create(t, class)
	n.run("critical", "system-node-critical")
	n.run("low", "")
	n.run("agent", "", corev1.Toleration{Operator: corev1.TolerationOpExists})
	n.run("high", class.Name)
	short := &v1alpha1.NodeWorkload{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: n.ns, Name: placement.NodeWorkloadName("high", n.name)}, short); err != nil {
		t.Fatal(err)
	}
	short.Spec.DeletionGracePeriodSeconds = ptr.To[int64](9)
	if err := api.Update(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	n.run("kept", "", corev1.Toleration{Key: v1alpha1.TaintDrain, Operator: corev1.TolerationOpExists})
	line := func(name, priority, rest string) string {
		return "nodeworkload " + n.ns + "/" + placement.NodeWorkloadName(name, n.name) + " (priority " + priority + ") " + rest + "\n"
	}
	stays := line("kept", "0", "stays: it tolerates managedworkload.dev/drain")
	would := stays + line("agent", "0", "would end, grace 30s") + line("low", "0", "would end, grace 30s") +
		line("high", "1000", "would end, grace 9s") + line("critical", "2000001000", "would end, grace 30s")
	n.drain("--dry-run=client").want(t, ExitNo, would+"node/"+n.name+" would be drained (dry run)\n", "")
	n.drain("--dry-run").want(t, ExitNo, would+"node/"+n.name+" would be drained (dry run)\n", "")
	n.drain("--dry-run", "server").want(t, ExitError, "", "accepts 1 arg(s)")
	n.drain("--dry-run=server").want(t, ExitNo, would+"node/"+n.name+" would be drained (server dry run)\n", "")
	if got := n.taints(); got != "" || len(n.ended) != 0 {
		t.Fatalf("a dry run ended %v, taints %q", n.ended, got)
	}

	n.shim()
	const how = "is gone\n  app: workload terminated, exited 0 after 7s of 30s"
	got := n.drain()
	want := stays + line("agent", "0", how) + line("low", "0", how) + line("high", "1000", how) + line("critical", "2000001000", how)
	lines := func(text string) []string { l := strings.Split(text, "\nnode"); slices.Sort(l[1:3]); return l }
	if diff := cmp.Diff(lines(want+"node/"+n.name+" drained\nto let it run NodeWorkloads again: kubectl mw undrain "+n.name+"\n"), lines(got.out)); diff != "" || got.code != ExitOK {
		t.Errorf("exit code %d, %s; output (-want +got):\n%s", got.code, got.err, diff)
	}
	const held = " managedworkload.dev/drain=hold:PreferNoSchedule"
	n.mu.Lock()
	if diff := cmp.Diff([]string{"agent" + held, "low" + held, "high" + held, "critical" + held}, n.ended); diff != "" {
		t.Errorf("order of the ends (-want +got):\n%s", diff)
	}
	n.mu.Unlock()
	const taint = "managedworkload.dev/drain:PreferNoSchedule"
	if got := n.taints(); got != taint {
		t.Errorf("taints %q, want %q", got, taint)
	}

	report := drainReport{}
	again := n.drain("-o", "json")
	if err := json.Unmarshal([]byte(again.out), &report); err != nil || again.code != ExitOK || !report.Complete || len(report.Workloads) != 1 || report.Workloads[0].State != stateStays {
		t.Errorf("a second drain: %v: %+v", err, again)
	}
	if got := n.taints(); got != taint {
		t.Errorf("taints %q after a second drain, want %q", got, taint)
	}

	run(t, "default", "", "undrain", n.name, "--dry-run=client").want(t, ExitOK, "node/"+n.name+" undrained (dry run)\n", "")
	run(t, "default", "", "undrain", n.name, "--dry-run=server").want(t, ExitOK, "node/"+n.name+" undrained (server dry run)\n", "")
	if n.taints() != taint {
		t.Error("a dry run removed the taint")
	}
	run(t, "default", "", "undrain", n.name).want(t, ExitOK, "node/"+n.name+" undrained\n", "")
	run(t, "default", "", "undrain", n.name).want(t, ExitOK, "node/"+n.name+" not drained\n", "")
	if got := n.taints(); got != "" {
		t.Errorf("taints %q after undrain", got)
	}
	run(t, "default", "", "drain", "no-such-node").want(t, ExitError, "", `"no-such-node" not found`)
	n.drain("--dry-run=maybe").want(t, ExitError, "", "--dry-run must be")
	n.drain("-o", "html").want(t, ExitError, "", "--output must be")
}

// What does not end in time is named, those of higher priorities too, and nothing of these is
// ended.
func TestDrainTimesOut(t *testing.T) {
	n := newDrainedNode(t)
	n.run("low", "")
	n.run("critical", "system-node-critical")
	n.away("low")
	r := n.drain("--timeout=2s")
	r.want(t, ExitNo, "nodeworkload "+n.ns+"/"+placement.NodeWorkloadName("low", n.name)+" (priority 0) cannot end yet: the node's shim does not respond\n"+
		"nodeworkload "+n.ns+"/"+placement.NodeWorkloadName("low", n.name)+" (priority 0) is still there: ShimResponding is False, Away\n"+
		"nodeworkload "+n.ns+"/"+placement.NodeWorkloadName("critical", n.name)+" (priority 2000001000) is still there\n", "timed out after 2s: node \""+n.name+"\" is not drained")
	list := &v1alpha1.NodeWorkloadList{}
	if err := api.List(t.Context(), list, client.MatchingFields{"spec.nodeName": n.name}); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if nw := &list.Items[i]; (nw.DeletionTimestamp != nil) != strings.HasPrefix(nw.Name, "low") {
			t.Errorf("%s: deleted at %v", nw.Name, nw.DeletionTimestamp)
		}
	}
	n.shim()
	if r := n.drain("--timeout=1m", "-o", "yaml"); r.code != ExitOK || !strings.Contains(r.out, "complete: true\n") {
		t.Errorf("run again: %+v", r)
	}
}
