// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// killUnderWay is a kill that a shim has begun when another one replaces it.
type killUnderWay struct {
	template string
	begin    func(*harness.Workload)
	sign     string // what the journal has once it began
	phase    v1alpha1.KillPhase
	finished func(*testing.T, *harness.Workload)
	w        *harness.Workload
}

func killsUnderWay() []*killUnderWay {
	const head = "terminationGracePeriodSeconds: 30\ncontainers:\n- name: main\n  image: managedworkload.dev/testprogram:v1\n" +
		"  volumeMounts: [{name: dir, mountPath: /dir}]\n"
	const tail = "volumes: [{name: dir, hostPath: {path: $DIR}}]"
	const hook = "  lifecycle: {preStop: {exec: {command: [/testprogram, seq, append, /dir/main, preStop, \",\", sleep, 20s]}}}\n"
	remove := func(w *harness.Workload) { w.Delete() }
	return []*killUnderWay{
		{ // A deletion in the hook: the hook is cut off with its shim and runs again.
			template: head + "  args: [serve, --log-file=/dir/main]\n" + hook + tail,
			begin:    remove, sign: "preStop", phase: v1alpha1.KillPhasePreStop,
			finished: func(t *testing.T, w *harness.Workload) {
				w.AwaitGone()
				wantJournal(t, w, "main", "started", "preStop", "preStop", "signal SIGTERM", "stopped code=0")
			},
		},
		{ // A deletion in StopContainer: no second signal, and no SIGKILL before its time.
			template: head + "  args: [serve, --log-file=/dir/main, --on-term=delay:20s]\n" + tail,
			begin:    remove, sign: "signal SIGTERM", phase: v1alpha1.KillPhaseStopping,
			finished: func(t *testing.T, w *harness.Workload) {
				w.AwaitGone()
				wantJournal(t, w, "main", "started", "signal SIGTERM", "stopped code=0")
			},
		},
		{ // A changed definition in the hook: killed once, started once.
			template: head + "  args: [serve, --log-file=/dir/main]\n" + hook + tail,
			begin: func(w *harness.Workload) {
				w.Change(func(template *corev1.PodTemplateSpec) {
					template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGE", Value: "one"}}
				})
			},
			sign: "preStop", phase: v1alpha1.KillPhasePreStop,
			finished: func(t *testing.T, w *harness.Workload) {
				kill := w.AwaitTrigger("main", v1alpha1.TriggerDefinitionChanged)
				nw := w.AwaitReady()
				wantJournal(t, w, "main", "started", "preStop", "preStop", "signal SIGTERM", "stopped code=0", "started")
				if kill.Outcome != v1alpha1.KillOutcomeGraceful || nw.Status.KillCount != 1 || nw.Status.Restarts != 1 {
					t.Errorf("%d kills, %d restarts, the kill: %+v", nw.Status.KillCount, nw.Status.Restarts, kill)
				}
			},
		},
	}
}

// applyAll creates the workloads of kills.
func applyAll(t *testing.T, kills []*killUnderWay) {
	t.Helper()
	for _, k := range kills {
		k.w = applyOnFirst(t, k.template)
	}
}

// beginAll begins kills, and waits until they are in their phases.
func beginAll(kills []*killUnderWay) {
	for _, k := range kills {
		k.begin(k.w)
		k.w.AwaitFind("main", k.sign, 1)
		k.w.AwaitPhase("main", k.phase)
	}
}

func wantJournal(t *testing.T, w *harness.Workload, journal string, want ...string) {
	t.Helper()
	w.AwaitFind(journal, "started", strings.Count(strings.Join(want, " "), "started"))
	var got []string
	for _, text := range harness.Texts(w.Journal(journal)) {
		text, _, _ := strings.Cut(text, " pid=")
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s saw (-want +got):\n%s", w.Namespace, diff)
	}
}
