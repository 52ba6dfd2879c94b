// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// dirVolume lets a container see the test's folder as /dir.
const dirVolume = `
volumes: [{name: dir, hostPath: {path: $DIR}}]`

// checkKill compares what matters of a kill record.
func checkKill(t *testing.T, got v1alpha1.KillRecord, want v1alpha1.KillRecord) {
	t.Helper()
	if got.Trigger != want.Trigger || got.Message != want.Message || got.Outcome != want.Outcome ||
		got.Grace.Seconds != want.Grace.Seconds || got.Grace.Source != want.Grace.Source {
		t.Errorf("kill of %s: trigger %s, message %q, outcome %s, grace %d s from %s\nwant trigger %s, message %q, outcome %s, grace %d s from %s\n(summary %q, error %q)",
			got.Container, got.Trigger, got.Message, got.Outcome, got.Grace.Seconds, got.Grace.Source,
			want.Trigger, want.Message, want.Outcome, want.Grace.Seconds, want.Grace.Source, got.Summary, got.Error)
	}
	if got.ID == "" || got.ContainerID == "" || got.Summary == "" || got.FinishTime == nil || got.RequestedBy == "" {
		t.Errorf("an incomplete kill record: %+v", got)
	}
}

func grace(seconds int64, source v1alpha1.GraceSource) v1alpha1.KillGrace {
	return v1alpha1.KillGrace{Seconds: seconds, Source: source}
}

// touch makes a file of the test's folder.
func touch(t *testing.T, w *harness.Workload, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// sandboxes are the IDs of the workload's sandboxes, ready or not.
func sandboxes(t *testing.T, w *harness.Workload) []string {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	list, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": w.Namespace},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range list.GetItems() {
		ids = append(ids, s.GetId())
	}
	return ids
}

func TestTriggerTermination(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	kills := w.DeleteAndCollect()
	if len(kills) != 1 {
		t.Fatalf("%d kill records, want 1: %+v", len(kills), kills)
	}
	checkKill(t, kills[0], v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerTermination, Message: "Stopping container c", Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(30, v1alpha1.GraceSourcePod),
	})
	if kills[0].ExitCode == nil || *kills[0].ExitCode != 0 || kills[0].StopSignal != "SIGTERM" {
		t.Errorf("exit code %v, stop signal %q", kills[0].ExitCode, kills[0].StopSignal)
	}
	got := harness.Texts(w.Journal("c"))
	if len(got) != 3 || got[1] != "signal SIGTERM" || got[2] != "stopped code=0" {
		t.Errorf("the container saw %q", got)
	}
	if left := sandboxes(t, w); len(left) != 0 {
		t.Errorf("sandboxes are left: %v", left)
	}
	w.AwaitEvent("Killing", "Stopping container c")
	w.AwaitEvent("Killed", kills[0].Summary)
}

func TestTriggerLivenessProbe(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 20
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --http=:8080, --fail-file=/dir/fail, --log-file=/dir/c]
  livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 2}
  lifecycle: {preStop: {exec: {command: [/testprogram, seq, append, /dir/c, preStop, ",", rm, /dir/fail]}}}
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	w.AwaitReady()
	touch(t, w, "fail")
	kill := w.AwaitTrigger("c", v1alpha1.TriggerLivenessProbe)
	checkKill(t, kill, v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerLivenessProbe, Message: "Container c failed liveness probe, will be restarted",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(20, v1alpha1.GraceSourcePod),
	})
	if kill.PreStop == nil || kill.PreStop.Outcome != v1alpha1.PreStopSucceeded || kill.PreStop.Handler != "exec" {
		t.Errorf("preStop %+v", kill.PreStop)
	}
	w.AwaitFind("c", "started", 2)
	got := harness.Texts(w.Journal("c"))
	if !slices.Equal(got[1:4], []string{"preStop", "signal SIGTERM", "stopped code=0"}) {
		t.Errorf("the container saw %q", got)
	}
	nw := w.Await("it was restarted", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Restarts == 1 && nw.Status.Ready == "1/1" })
	if last := nw.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 0 {
		t.Errorf("lastState %+v", nw.Status.ContainerStatuses[0].LastTerminationState)
	}
	w.AwaitEvent("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503")
}

func TestTriggerStartupProbe(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/c]
  startupProbe: {exec: {command: [/testprogram, check-file, /dir/up]}, periodSeconds: 1, failureThreshold: 2, terminationGracePeriodSeconds: 7}
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	checkKill(t, w.AwaitTrigger("c", v1alpha1.TriggerStartupProbe), v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerStartupProbe, Message: "Container c failed startup probe, will be restarted",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(7, v1alpha1.GraceSourceProbe),
	})
	touch(t, w, "up")
	w.AwaitReady()
	w.AwaitEvent("Unhealthy", "Startup probe failed")
}

func TestTriggerDefinitionChanged(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}
- {name: other, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/other], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	before := w.AwaitReady()
	boxes := sandboxes(t, w)
	w.Change(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.Containers[0].Image = "managedworkload.dev/testprogram:v2"
	})
	kill := w.AwaitTrigger("c", v1alpha1.TriggerDefinitionChanged)
	who := filepath.Base(os.Args[0]) // the field manager of a Go program that names none
	if !slices.Equal(kill.ChangedFields, []string{"image"}) || kill.RequestedBy != who ||
		!strings.HasPrefix(kill.Summary, "definition changed by "+who+" (image)") {
		t.Errorf("changed fields %q, requested by %q, summary %q", kill.ChangedFields, kill.RequestedBy, kill.Summary)
	}
	checkKill(t, kill, v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerDefinitionChanged, Message: "Container c definition changed, will be restarted",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(30, v1alpha1.GraceSourcePod),
	})
	after := w.AwaitReady()
	if got := after.Status.ContainerStatuses[0].Image; got != "managedworkload.dev/testprogram:v2" {
		t.Errorf("it runs image %q", got)
	}
	if got := sandboxes(t, w); !slices.Equal(got, boxes) {
		t.Errorf("sandboxes %v, want the same as before: %v", got, boxes)
	}
	if before.Status.ContainerStatuses[1].ContainerID != after.Status.ContainerStatuses[1].ContainerID {
		t.Error("the container that did not change was restarted")
	}
}

func TestTriggerRestartRequested(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `{containers: [{name: c, image: "managedworkload.dev/testprogram:v1"}]}`)
	w.AwaitReady()
	boxes := sandboxes(t, w)
	w.Change(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "2026-01-01T00:00:00Z"}
	})
	kill := w.AwaitTrigger("c", v1alpha1.TriggerRestartRequested)
	if kill.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("outcome %s", kill.Outcome)
	}
	if nw := w.AwaitReady(); nw.Status.Restarts != 1 {
		t.Errorf("%d restarts, want 1", nw.Status.Restarts)
	}
	if got := sandboxes(t, w); !slices.Equal(got, boxes) {
		t.Errorf("sandboxes %v, want the same as before: %v", got, boxes)
	}
}

func TestTriggerSandboxChanged(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `{containers: [{name: c, image: "managedworkload.dev/testprogram:v1"}]}`)
	w.AwaitReady()
	boxes := sandboxes(t, w)
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.Hostname = "another" })
	checkKill(t, w.AwaitTrigger("c", v1alpha1.TriggerSandboxChanged), v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerSandboxChanged, Message: "Pod definition changed",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(30, v1alpha1.GraceSourcePod),
	})
	if nw := w.AwaitReady(); nw.Status.Restarts != 1 {
		t.Errorf("%d restarts, want 1: the count carries over a new sandbox", nw.Status.Restarts)
	}
	if got := sandboxes(t, w); slices.Contains(got, boxes[0]) && len(got) == 1 {
		t.Errorf("sandboxes %v, want a new one beside %v", got, boxes)
	}
	w.AwaitEvent("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
}

func TestTriggerPostStartHookFailed(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/c]
  lifecycle: {postStart: {exec: {command: [/testprogram, check-file, /dir/up]}}}
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	checkKill(t, w.AwaitTrigger("c", v1alpha1.TriggerPostStartHookFailed), v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerPostStartHookFailed, Message: "FailedPostStartHook",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(30, v1alpha1.GraceSourcePod),
	})
	touch(t, w, "up")
	w.AwaitReady()
	w.AwaitEvent("FailedPostStartHook", "PostStartHook failed")
}

// A failed probe that leaves nothing to keep and nothing to start is a kill of
// the whole workload, with the workload's grace period.
func TestTriggerWorkloadFinished(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
restartPolicy: Never
terminationGracePeriodSeconds: 20
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --term-exit-code=3, --log-file=/dir/c]
  livenessProbe: {exec: {command: [/testprogram, check-no-file, /dir/fail]}, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 5}
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	w.AwaitReady()
	touch(t, w, "fail")
	checkKill(t, w.AwaitTrigger("c", v1alpha1.TriggerWorkloadFinished), v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerWorkloadFinished, Message: "Container c failed liveness probe, no container is left to keep or to start",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(20, v1alpha1.GraceSourcePod),
	})
	w.AwaitEvent("Killing", "Stopping container c")
	w.Await("it has failed", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Phase == corev1.PodFailed })
	w.AwaitObject("the ManagedWorkload is stalled", func(mw *v1alpha1.ManagedWorkload) bool {
		return hasCondition(mw.Status.Conditions, v1alpha1.ConditionStalled, "True")
	})
}

// A workload that has ended ends its sidecars.
func TestTriggerTerminationOfWhatEnded(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
restartPolicy: Never
initContainers:
- {name: side, image: managedworkload.dev/testprogram:v1, restartPolicy: Always}
- {name: init, image: managedworkload.dev/testprogram:v1, args: [seq, sleep, 1s, ",", exit, "3"]}
containers:
- {name: c, image: managedworkload.dev/testprogram:v1}`)
	if kill := w.AwaitTrigger("side", v1alpha1.TriggerTermination); kill.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("outcome %s", kill.Outcome)
	}
	w.Await("it has failed", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Phase == corev1.PodFailed })
}

func TestTriggerRestartAllContainers(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}],
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/c, preStop]}}}}
- name: asks
  image: managedworkload.dev/testprogram:v1
  args: [serve, --exit-after=2s, "--exit-code=42,0", --count-file=/dir/count, --log-file=/dir/asks]
  restartPolicy: Never
  restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	kill := w.AwaitTrigger("c", v1alpha1.TriggerRestartAllContainers)
	if kill.Grace.Source != v1alpha1.GraceSourceOverride || kill.StopTimeoutSeconds == nil || *kill.StopTimeoutSeconds != 2 {
		t.Errorf("grace %+v, stop timeout %v: want an override of 0 that still stops with 2 s", kill.Grace, kill.StopTimeoutSeconds)
	}
	w.AwaitFind("c", "started", 2)
	if hooks := w.Find("c", "preStop"); len(hooks) != 0 {
		t.Error("the preStop hook ran; RestartAllContainers skips it")
	}
}

func TestTriggerContainerRemoved(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 9
containers:
- {name: stays, image: managedworkload.dev/testprogram:v1}
- {name: goes, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/goes], volumeMounts: [{name: dir, mountPath: /dir}],
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/goes, preStop]}}}}`+dirVolume)
	before := w.AwaitReady()
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.Containers = tmpl.Spec.Containers[:1] })
	kill := w.AwaitTrigger("goes", v1alpha1.TriggerContainerRemoved)
	if kill.Outcome != v1alpha1.KillOutcomeGraceful || kill.Grace.Seconds != 9 {
		t.Errorf("outcome %s, grace %+v", kill.Outcome, kill.Grace)
	}
	if got := harness.Texts(w.Journal("goes")); !slices.Equal(got[1:], []string{"preStop", "signal SIGTERM", "stopped code=0"}) {
		t.Errorf("the removed container saw %q: want its recorded hook to run", got)
	}
	after := w.AwaitReady()
	// The statuses are in the order of the names.
	if len(after.Status.ContainerStatuses) != 1 || after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[1].ContainerID {
		t.Errorf("containers %+v, want the one that stays, not restarted", after.Status.ContainerStatuses)
	}
}

func hasCondition(conditions []metav1.Condition, conditionType string, status metav1.ConditionStatus) bool {
	return meta.IsStatusConditionPresentAndEqual(conditions, conditionType, status)
}
