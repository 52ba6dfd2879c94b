// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

const message = "Pod was terminated in response to imminent node shutdown."

// template is that of a workload which notes its stop signal and ends a second later.
func template(class string, grace int) string {
	return fmt.Sprintf(`
terminationGracePeriodSeconds: %d
priorityClassName: %q
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=delay:1s, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}
volumes: [{name: dir, hostPath: {path: $DIR}}]`, grace, class)
}

func prepare(t *testing.T, shutdown bool) {
	t.Helper()
	if err := logind.Prepare(shutdown); err != nil {
		t.Fatal(err)
	}
}

// awaitLocks waits until the shim holds so many locks.
func awaitLocks(t *testing.T, want int) {
	t.Helper()
	late := time.After(harness.Timeout)
	for {
		changed := logind.Changed()
		held, _ := logind.Locks()
		if held == want {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d locks are held, want %d", held, want)
		}
	}
}

// awaitNode waits until the Node's condition Ready has a status, and returns its message.
func awaitNode(t *testing.T, want corev1.ConditionStatus) string {
	t.Helper()
	late := time.After(harness.Timeout)
	for {
		node := &corev1.Node{}
		if err := env.Kube.Get(t.Context(), client.ObjectKey{Name: env.Stack.NodeName()}, node); err != nil {
			t.Fatal(err)
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == want {
				return c.Message
			}
		}
		select {
		case <-late:
			t.Fatalf("the Node's conditions are %+v, want Ready %s", node.Status.Conditions, want)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// awaitShutDown waits until a workload has ended because its node shut down.
func awaitShutDown(t *testing.T, w *harness.Workload, grace int64) v1alpha1.KillRecord {
	t.Helper()
	nw := w.Await("it was shut down", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Status.Phase == corev1.PodFailed && len(nw.Status.Kills) == 1 && nw.Status.Kills[0].Phase == v1alpha1.KillPhaseDone
	})
	c := meta.FindStatusCondition(nw.Status.Conditions, "DisruptionTarget")
	if nw.Status.Reason != "Terminated" || nw.Status.Message != message || c == nil || c.Status != metav1.ConditionTrue || c.Reason != "TerminationByKubelet" {
		t.Errorf("reason %q, message %q, condition %+v", nw.Status.Reason, nw.Status.Message, c)
	}
	kill := nw.Status.Kills[0]
	if kill.Trigger != v1alpha1.TriggerNodeShutdown || kill.Message != message || kill.RequestedBy != "shim (node shutdown)" ||
		kill.Grace.Seconds != grace || kill.Grace.Source != v1alpha1.GraceSourceOverride || kill.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("kill record %+v, want a grace period of %d s", kill, grace)
	}
	return kill
}

// awaitRefused waits until a workload is refused because its node shuts down.
func awaitRefused(w *harness.Workload) {
	w.Await("it is refused", func(nw *v1alpha1.NodeWorkload) bool {
		c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionTemplateAccepted)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "NodeShutdown" && c.Message == "Pod was rejected as the node is shutting down."
	})
}

// A shutdown ends what runs by priority, holds the machine up until that is done, and refuses what
// is new. When it was cancelled, all of it runs again.
func TestShutdown(t *testing.T) {
	awaitLocks(t, 1)
	low, critical := env.Apply(t, template("", 7)), env.Apply(t, template("system-node-critical", 60))
	lowBefore, criticalBefore := low.AwaitReady(), critical.AwaitReady()

	prepare(t, true)
	t.Cleanup(func() { prepare(t, false) })
	first := awaitShutDown(t, low, 7)
	second := awaitShutDown(t, critical, 20)
	if first.FinishTime.After(second.StartTime.Time) {
		t.Errorf("the critical workload was killed at %v, and the other one ended at %v", second.StartTime, first.FinishTime)
	}
	awaitLocks(t, 0)
	if got := awaitNode(t, corev1.ConditionFalse); got != "node is shutting down" {
		t.Errorf("the Node says %q", got)
	}
	late := env.Apply(t, template("", 7))
	awaitRefused(late)
	if low.Node().UID != lowBefore.UID || critical.Node().UID != criticalBefore.UID {
		t.Error("a workload was made again while its node shuts down")
	}

	prepare(t, false)
	awaitLocks(t, 1)
	awaitNode(t, corev1.ConditionTrue)
	late.AwaitReady()
	for w, before := range map[*harness.Workload]*v1alpha1.NodeWorkload{low: lowBefore, critical: criticalBefore} {
		if now := w.AwaitReady(); now.UID == before.UID || len(now.Status.Kills) != 0 {
			t.Errorf("not made again: %+v", now.Status)
		}
		w.AwaitEvent("FailedNodeWorkload", "Terminated: "+message)
	}
}

// byPriority restarts the shim with times by priority in place of those that the suite gives it,
// until the test is over.
func byPriority(t *testing.T, periods string) {
	t.Helper()
	before := env.Stack.Shim.Args()
	restart := func(ctx context.Context, args []string) {
		if err := env.Stack.Shim.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		env.Stack.Shim.SetArgs(args...)
		if err := env.Stack.Shim.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { restart(context.Background(), before) })
	others := slices.DeleteFunc(slices.Clone(before), func(arg string) bool { return strings.HasPrefix(arg, "--shutdown-grace-period") })
	restart(t.Context(), append(others, "--shutdown-grace-period-by-pod-priority="+periods))
}

// With times by priority the groups end one after the other, the lowest first, however the flag
// orders them. Each workload has the smaller of its group's time and its own, and the next group
// does not wait for time that is left. What is new is refused from the first group on.
func TestShutdownByPodPriority(t *testing.T) {
	byPriority(t, "2000001000=9s,0=6s,2000000000=50s")
	late := env.New(t)
	low, cluster := env.Apply(t, template("", 30)), env.Apply(t, strings.Replace(template("system-cluster-critical", 7), "delay:1s", "delay:4s", 1))
	node := env.Apply(t, template("system-node-critical", 30))
	for _, w := range []*harness.Workload{low, cluster, node} {
		w.AwaitReady()
	}
	awaitLocks(t, 1)

	prepare(t, true)
	t.Cleanup(func() { prepare(t, false) })
	kills := []v1alpha1.KillRecord{awaitShutDown(t, low, 6)}
	late.Apply(template("system-node-critical", 7))
	awaitRefused(late)
	awaitLocks(t, 1) // the others have not ended
	kills = append(kills, awaitShutDown(t, cluster, 7), awaitShutDown(t, node, 9))
	for i := range kills[1:] {
		between := kills[i+1].StartTime.Sub(kills[i].FinishTime.Time)
		if between < 0 || between > 4*time.Second {
			t.Errorf("group %d was killed %v after group %d had ended", i+1, between, i)
		}
	}
	awaitLocks(t, 0)

	prepare(t, false)
	awaitLocks(t, 1)
	for _, w := range []*harness.Workload{low, cluster, node, late} {
		w.AwaitReady()
	}
}

// A shutdown that is cancelled in time does not end what comes later in the order, and neither do
// a bus and a shim that end meanwhile.
func TestCancelledShutdown(t *testing.T) {
	awaitLocks(t, 1)
	low := env.Apply(t, strings.Replace(template("", 30), "delay:1s", "delay:5s", 1))
	critical := env.Apply(t, template("system-node-critical", 60))
	low.AwaitReady()
	before := critical.AwaitReady()
	prepare(t, true)
	t.Cleanup(func() { prepare(t, false) })
	low.AwaitFind("c", "signal SIGTERM", 1)
	prepare(t, false)
	now := low.Await("it is made again", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Ready == "1/1" && len(nw.Status.Kills) == 0 })
	if now.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", now.Status.Phase)
	}
	awaitLocks(t, 1)
	if err := env.Stack.Shim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitLocks(t, 0) // the lock is gone with the process
	if err := env.Stack.Shim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitLocks(t, 1)
	if after := critical.AwaitReady(); after.UID != before.UID || after.Status.KillCount != 0 || len(critical.Find("c", "signal")) != 0 {
		t.Errorf("the critical workload was killed: %+v", after.Status.Kills)
	}
}

// kubectl mw drain ends what a node runs in order and keeps it away until undrain.
func TestDrain(t *testing.T) {
	low, critical := env.Apply(t, template("", 7)), env.Apply(t, template("system-node-critical", 8))
	low.AwaitReady()
	critical.AwaitReady()
	node := env.Stack.NodeName()
	kubectl := func(code int, args ...string) string {
		t.Helper()
		out, errOut, got := low.Kubectl("", append([]string{"mw"}, args...)...)
		if got != code {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, got, code, out, errOut)
		}
		return out
	}
	ofLow, ofCritical := low.Namespace+"/"+low.Node().Name+" (priority 0)", critical.Namespace+"/"+critical.Node().Name+" (priority 2000001000)"
	dry := kubectl(1, "drain", node, "--dry-run=server")
	for _, want := range []string{ofLow + " would end, grace 7s\n", ofCritical + " would end, grace 8s\n"} {
		if !strings.Contains(dry, want) {
			t.Errorf("the dry run lacks %q:\n%s", want, dry)
		}
	}
	low.AwaitReady()

	defer low.Kubectl("", "mw", "undrain", node) // the context ends before what Cleanup does
	out := kubectl(0, "drain", node, "--timeout=90s")
	first, second := strings.Index(out, ofLow+" is gone\n  c: workload terminated, exited 0"), strings.Index(out, ofCritical+" is gone\n  c: workload terminated, exited 0")
	if first < 0 || second < first || !strings.Contains(out, "node/"+node+" drained\n") {
		t.Errorf("drain says:\n%s", out)
	}
	ended, began := low.Find("c", "signal SIGTERM"), critical.Find("c", "signal SIGTERM")
	if len(ended) != 1 || len(began) != 1 || began[0].Time.Before(ended[0].Time.Add(time.Second)) {
		t.Errorf("the critical workload got its signal at %+v, the other one, which takes 1 s, at %+v", began, ended)
	}
	low.AwaitObject("no node is left", func(mw *v1alpha1.ManagedWorkload) bool {
		return mw.Status.DesiredNodes == 0 && len(mw.Status.RecentKills) == 1
	})
	kubectl(0, "undrain", node)
	low.AwaitReady()
	critical.AwaitReady()
}
