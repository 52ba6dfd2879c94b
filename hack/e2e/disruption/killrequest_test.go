// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// Shim and manager die while a request has a container killed, and the shim once more before
// another one could be started: the shim that comes after finishes the one and does the other,
// of a workload that is never restarted otherwise.
func TestShimKilledDuringKillRequest(t *testing.T) {
	w := env.New(t)
	touch(t, w, "gate")
	w.Apply(`
restartPolicy: Never
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=ignore, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}
volumes: [{name: dir, hostPath: {path: $DIR}}, {name: gate, hostPath: {path: $DIR/gate, type: File}}]`)
	w.AwaitReady()
	kr := &v1alpha1.KillRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "amid"},
		Spec: v1alpha1.KillRequestSpec{
			WorkloadName: w.Name, Nodes: v1alpha1.RequestNodes{All: true}, Action: v1alpha1.RequestRestart,
			TerminationGracePeriodSeconds: new(int64(3)),
		},
	}
	if err := env.Kube.Create(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	w.AwaitFind("c", "signal SIGTERM", 1)
	w.AwaitPhase("c", v1alpha1.KillPhaseStopping)
	if err := os.Remove(filepath.Join(w.Dir, "gate")); err != nil {
		t.Fatal(err)
	}
	kill(t, env.Stack.Shim)
	kill(t, env.Stack.Manager)
	start(t, env.Stack.Shim)
	start(t, env.Stack.Manager)
	w.AwaitTrigger("c", v1alpha1.TriggerRestartRequested)
	between := w.Await("its start has failed", func(nw *v1alpha1.NodeWorkload) bool {
		return len(nw.Status.ContainerStatuses) == 1 && nw.Status.ContainerStatuses[0].State.Running == nil
	})
	if between.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s between the kill and the start: %s", between.Status.Phase, between.Status.Summary)
	}
	kill(t, env.Stack.Shim)
	touch(t, w, "gate")
	start(t, env.Stack.Shim)
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestSucceeded)
	nw := w.Node()
	if len(nw.Status.Kills) != 1 || nw.Status.KillCount != 1 {
		t.Fatalf("kills %+v, want the one that was requested", nw.Status.Kills)
	}
	got := nw.Status.Kills[0]
	if got.Phase != v1alpha1.KillPhaseDone || got.Outcome != v1alpha1.KillOutcomeForced || got.RequestedBy == "" || got.RequestedBy != kr.Spec.RequestedBy {
		t.Errorf("phase %s, outcome %q, requested by %q, want %q", got.Phase, got.Outcome, got.RequestedBy, kr.Spec.RequestedBy)
	}
	if len(w.AwaitFind("c", "started", 2)) != 2 || len(w.Find("c", "signal SIGTERM")) != 1 {
		t.Errorf("the container saw %q, want two starts and one SIGTERM", harness.Texts(w.Journal("c")))
	}
}

// A container that a request holds is not started by a shim that is restarted, but as soon as the
// request is deleted.
func TestHeldOverARestartOfTheShim(t *testing.T) {
	w := env.Apply(t, plain)
	w.AwaitReady()
	kr := &v1alpha1.KillRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "hold"},
		Spec: v1alpha1.KillRequestSpec{
			WorkloadName: w.Name, Nodes: v1alpha1.RequestNodes{All: true}, Action: v1alpha1.RequestStop,
		},
	}
	if err := env.Kube.Create(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestHeld)
	kill(t, env.Stack.Shim)
	start(t, env.Stack.Shim)
	// A change that restarts nothing shows that the new shim has the workload.
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.TerminationGracePeriodSeconds = new(int64(11)) })
	nw := w.Await("the new shim has taken it over", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Spec.Template.Spec.TerminationGracePeriodSeconds != nil && *nw.Spec.Template.Spec.TerminationGracePeriodSeconds == 11 &&
			nw.Status.ObservedGeneration == nw.Generation
	})
	if !meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionHeld) || len(w.AwaitFind("c", "started", 1)) != 1 {
		t.Errorf("it is not held any more: %q, %+v", harness.Texts(w.Journal("c")), nw.Status.Conditions)
	}
	if err := env.Kube.Delete(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	w.AwaitFind("c", "started", 2)
	w.AwaitReady()
}
