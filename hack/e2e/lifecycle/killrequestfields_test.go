// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// states are phase and message of a request by container, on the one node.
func states(kr *v1alpha1.KillRequest) map[string]string {
	states := map[string]string{}
	for _, n := range kr.Status.NodeStates {
		for _, c := range n.Containers {
			states[c.Name] = string(c.Phase) + ": " + c.Message
		}
	}
	return states
}

// wantStates fails unless a request says so of the containers.
func wantStates(t *testing.T, kr *v1alpha1.KillRequest, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, states(kr)); diff != "" {
		t.Errorf("KillRequest %s by container (-want +got):\n%s", kr.Name, diff)
	}
}

// writeRuns writes the file in which a container counts its runs; it does not start with
// anything but a number in it.
func writeRuns(t *testing.T, w *harness.Workload, container, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, container+".runs"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// notReady is the condition of a NodeWorkload that is not ready for the sake of a request.
func notReady(nw *v1alpha1.NodeWorkload) *metav1.Condition {
	c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonKillRequested {
		return nil
	}
	return c
}

// With orderedRecreate, a container is killed when the new instance of the one before has run
// for minStartedSeconds, in the order of the request; after one has failed no other, unless
// failures are ignored.
func TestKillRequestOrderedRecreate(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- {name: a, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/a], volumeMounts: [{name: dir, mountPath: /dir}]}
- {name: b, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/b, --count-file=/dir/b.runs], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	ordered := func(name string) *v1alpha1.KillRequest {
		kr := request(w, name, v1alpha1.RequestRestart)
		kr.Spec.Containers, kr.Spec.OrderedRecreate = []string{"b", "a"}, true
		return kr
	}
	all := ordered("all")
	all.Spec.MinStartedSeconds = 3
	awaitRequest(t, env.Kube, all, v1alpha1.RequestSucceeded)
	done := time.Now()
	wantStates(t, all, map[string]string{"b": "Succeeded: restarted", "a": "Succeeded: restarted"})
	// By the runtime: on a busy machine a program says later that it has started.
	started := map[string]time.Time{}
	for _, c := range w.Node().Status.ContainerStatuses {
		started[c.Name] = c.State.Running.StartedAt.Time
	}
	if waited := w.Find("a", "signal SIGTERM")[0].Time.Sub(started["b"]); waited < 3*time.Second {
		t.Errorf("a got SIGTERM %s after b had started again, want 3s at least", waited)
	}
	if ran := done.Sub(started["a"]); ran < 3*time.Second {
		t.Errorf("the request was done %s after the new instance of a had started, want 3s at least", ran)
	}

	writeRuns(t, w, "b", "none")
	fails := ordered("fails")
	fails.Spec.MinStartedSeconds = 3
	awaitRequest(t, env.Kube, fails, v1alpha1.RequestFailed)
	wantStates(t, fails, map[string]string{"b": "Failed: the new instance ended with exit code 1", "a": "Failed: not begun: container b failed"})
	if starts := len(w.AwaitFind("a", "started", 2)); starts != 2 {
		t.Errorf("a started %d times, want 2: b has failed", starts)
	}
	w.Await("b waits for its restart", func(nw *v1alpha1.NodeWorkload) bool { return waiting(nw, "b") == "CrashLoopBackOff" })
	ignores := ordered("ignores")
	ignores.Spec.FailurePolicy = v1alpha1.RequestIgnore
	awaitRequest(t, env.Kube, ignores, v1alpha1.RequestFailed)
	wantStates(t, ignores, map[string]string{"b": "Failed: the container does not run", "a": "Succeeded: restarted"})
	if starts := len(w.AwaitFind("a", "started", 3)); starts != 3 {
		t.Errorf("a started %d times, want 3: the failure of b is ignored", starts)
	}
}

// waiting is why a container waits, "" if it does not.
func waiting(nw *v1alpha1.NodeWorkload, container string) string {
	for _, c := range nw.Status.ContainerStatuses {
		if c.Name == container && c.State.Waiting != nil {
			return c.State.Waiting.Reason
		}
	}
	return ""
}

// Without forceRecreate, a container that is starting is waited for, and one that does not run
// fails the request. With it, the one is killed, and the other starts long before its back-off
// is over.
func TestKillRequestForceRecreate(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	writeRuns(t, w, "b", "none")
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	mw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{BaseSeconds: new(int32(300))}
	mw.Spec.Template = w.Parse(`
containers:
- name: a
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/a]
  startupProbe: {exec: {command: [/testprogram, cat, /dir/up]}, periodSeconds: 1, failureThreshold: 1000}
  volumeMounts: [{name: dir, mountPath: /dir}]
- {name: b, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/b, --count-file=/dir/b.runs], volumeMounts: [{name: dir, mountPath: /dir}]}` + dirVolume)
	if err := env.Kube.Create(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	before := ids(w.Await("a starts and b waits", func(nw *v1alpha1.NodeWorkload) bool {
		return ids(nw)["a"] != "" && waiting(nw, "b") == "CrashLoopBackOff"
	}))
	both := func(name string) *v1alpha1.KillRequest {
		kr := request(w, name, v1alpha1.RequestRestart)
		kr.Spec.Containers, kr.Spec.FailurePolicy = []string{"a", "b"}, v1alpha1.RequestIgnore
		if err := env.Kube.Create(t.Context(), kr); err != nil {
			t.Fatal(err)
		}
		return kr
	}
	polite := both("polite")
	want := map[string]string{"a": "Pending: waits for the start of the container", "b": "Failed: the container does not run"}
	env.AwaitRequest(t, polite, "a is waited for", func() bool { return cmp.Equal(want, states(polite)) })
	if err := env.Kube.Delete(t.Context(), polite); err != nil {
		t.Fatal(err)
	}
	nw := w.Await("nothing is asked any more", func(nw *v1alpha1.NodeWorkload) bool { return len(nw.Spec.Requests)+len(nw.Status.Requests) == 0 })
	if len(nw.Status.Kills) > 0 || ids(nw)["a"] != before["a"] {
		t.Fatalf("something was killed: %+v", nw.Status.Kills)
	}

	writeRuns(t, w, "b", "1")
	force := request(w, "force", v1alpha1.RequestRestart)
	force.Spec.Containers, force.Spec.ForceRecreate = []string{"a", "b"}, true
	if err := env.Kube.Create(t.Context(), force); err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"a": "InProgress: the new instance is not ready yet", "b": "Succeeded: restarted"}
	env.AwaitRequest(t, force, "b runs", func() bool { return cmp.Equal(want, states(force)) })
	w.AwaitFind("a", "started", 2)
	touch(t, w, "up")
	env.AwaitRequestPhase(t, force, v1alpha1.RequestSucceeded)
	nw = w.AwaitReady()
	checkKill(t, w.AwaitTrigger("a", v1alpha1.TriggerRestartRequested), v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerRestartRequested, Message: "Container a restart requested, will be restarted: KillRequest force: leaks memory",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(30, v1alpha1.GraceSourcePod),
	})
	if len(nw.Status.Kills) != 1 || len(w.AwaitFind("b", "started", 1)) != 1 {
		t.Errorf("kills %+v, want that of a; b saw %q, want one start", nw.Status.Kills, harness.Texts(w.Journal("b")))
	}
}

// The NodeWorkload is not ready for unreadyGracePeriodSeconds before the container is killed.
// If the deadline comes first, nothing is killed and it is ready again.
func TestKillRequestUnreadyGracePeriod(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, twoContainers)
	before := ids(w.AwaitReady())
	ask := func(name string, seconds int64, deadline *int64) (*v1alpha1.KillRequest, *metav1.Condition) {
		t.Helper()
		kr := request(w, name, v1alpha1.RequestRestart)
		kr.Spec.UnreadyGracePeriodSeconds, kr.Spec.ActiveDeadlineSeconds = seconds, deadline
		if err := env.Kube.Create(t.Context(), kr); err != nil {
			t.Fatal(err)
		}
		nw := w.Await("it is not ready", func(nw *v1alpha1.NodeWorkload) bool { return notReady(nw) != nil })
		if diff := cmp.Diff(before, ids(nw)); diff != "" || len(nw.Status.Kills) > 0 {
			t.Errorf("containers (-before +not ready):\n%s\nkills %+v", diff, nw.Status.Kills)
		}
		return kr, notReady(nw)
	}
	late, _ := ask("late", 3600, new(int64(3)))
	env.AwaitRequestPhase(t, late, v1alpha1.RequestFailed)
	wantStates(t, late, map[string]string{"a": "Failed: not done before the deadline"})
	if kept := ids(w.AwaitReady()); !cmp.Equal(before, kept) || len(w.Find("a", "signal")) > 0 {
		t.Errorf("containers %v, were %v, after a request that was too late", kept, before)
	}

	kr, condition := ask("unready", 4, nil)
	if condition.Message != "KillRequest unready: leaks memory" {
		t.Errorf("it is not ready because of %q", condition.Message)
	}
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestSucceeded)
	if waited := w.Find("a", "signal SIGTERM")[0].Time.Sub(condition.LastTransitionTime.Time); waited < 4*time.Second {
		t.Errorf("a got SIGTERM %s after the workload was not ready any more, want 4s at least", waited)
	}
	if after := ids(w.AwaitReady()); after["a"] == before["a"] || after["b"] != before["b"] {
		t.Errorf("containers %v, were %v", after, before)
	}
}

// A deadline that passes while a container is killed fails the request. The kill keeps its grace
// period, and another instance starts although the restart policy is Never. After the deadline
// no other container is begun, also where failures are ignored.
func TestKillRequestDeadline(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
restartPolicy: Never
terminationGracePeriodSeconds: 20
containers:
- {name: a, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/a, "--on-term=delay:7s"], volumeMounts: [{name: dir, mountPath: /dir}]}
- {name: b, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/b], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	before := ids(w.AwaitReady())
	kr := request(w, "late", v1alpha1.RequestRestart)
	kr.Spec.Containers, kr.Spec.OrderedRecreate, kr.Spec.ActiveDeadlineSeconds = []string{"a", "b"}, true, new(int64(4))
	kr.Spec.FailurePolicy = v1alpha1.RequestIgnore
	awaitRequest(t, env.Kube, kr, v1alpha1.RequestFailed)
	const late = "not done before the deadline"
	wantStates(t, kr, map[string]string{"a": "Failed: " + late, "b": "Failed: " + late})
	if c := meta.FindStatusCondition(kr.Status.Conditions, v1alpha1.ConditionFailed); c == nil || c.Status != metav1.ConditionTrue || !strings.HasSuffix(c.Message, late) {
		t.Errorf("condition %+v", c)
	}
	w.AwaitRequestEvent(kr, corev1.EventTypeWarning, "Failed", kr.Status.Message)
	if stopped := w.Find("a", "stopped"); len(stopped) > 0 {
		t.Fatalf("the container had ended before the deadline: %+v", stopped)
	}
	checkKill(t, w.AwaitTrigger("a", v1alpha1.TriggerRestartRequested), v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerRestartRequested, Message: "Container a restart requested, will be restarted: KillRequest late: leaks memory",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(20, v1alpha1.GraceSourcePod),
	})
	nw := w.Await("it runs again", func(nw *v1alpha1.NodeWorkload) bool {
		return ids(nw)["a"] != "" && ids(nw)["a"] != before["a"] && meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionReady)
	})
	w.AwaitFind("a", "started", 2)
	got := harness.Texts(w.Journal("a"))
	if len(got) != 4 || !slices.Equal(got[1:3], []string{"signal SIGTERM", "stopped code=0"}) || len(nw.Status.Kills) != 1 || ids(nw)["b"] != before["b"] {
		t.Errorf("a saw %q; containers %v, were %v; kills %+v", got, ids(nw), before, nw.Status.Kills)
	}
}
