// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// A running container is adopted by the shim that comes after a crash: it is
// not started again, and it does not turn unready.
func TestShimKilledWhileRunning(t *testing.T) {
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c, "--http=:8080"], volumeMounts: [{name: dir, mountPath: /dir}],
  readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1, initialDelaySeconds: 2}}`+dirVolume)
	before := w.AwaitReady()
	kill(t, env.Stack.Shim)
	start(t, env.Stack.Shim)
	// A change that restarts nothing shows that the new shim has the workload.
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.TerminationGracePeriodSeconds = ptr.To[int64](11) })
	after := w.Await("the new shim has taken it over", func(nw *v1alpha1.NodeWorkload) bool {
		if nw.Status.Ready != "1/1" {
			t.Errorf("it turned unready: %s", nw.Status.Summary)
		}
		return nw.Status.ObservedGeneration == nw.Generation && nw.Generation > before.Generation
	})
	if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID || len(w.AwaitFind("c", "started", 1)) != 1 {
		t.Errorf("the container was started again: %q", harness.Texts(w.Journal("c")))
	}
}

// A shim that dies while the preStop hook runs: the hook is cut off with it, and
// the next shim finishes the kill within the time it had.
func TestShimKilledDuringPreStop(t *testing.T) {
	w := env.Apply(t, `
terminationGracePeriodSeconds: 12
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=ignore, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}],
  lifecycle: {preStop: {exec: {command: [/testprogram, seq, append, /dir/c, hook, ",", sleep, 60s]}}}}`+dirVolume)
	w.AwaitReady()
	w.Delete()
	began := w.AwaitFind("c", "hook", 1)[0]
	w.AwaitPhase("c", v1alpha1.KillPhasePreStop)
	kill(t, env.Stack.Shim)
	start(t, env.Stack.Shim)
	kills := w.CollectUntilGone()
	if len(kills) != 1 {
		t.Fatalf("%d kill records, want the one that was begun: %+v", len(kills), kills)
	}
	if kills[0].Outcome != v1alpha1.KillOutcomeForced || kills[0].Phase != v1alpha1.KillPhaseDone {
		t.Errorf("outcome %s, phase %s", kills[0].Outcome, kills[0].Phase)
	}
	if took := kills[0].FinishTime.Sub(began.Time); took > 12*time.Second+2*time.Second+5*time.Second {
		t.Errorf("the kill took %s from its begin, more than the grace it had", took)
	}
	if len(w.Find("c", "signal SIGTERM")) != 1 {
		t.Errorf("the container saw %q, want one SIGTERM", harness.Texts(w.Journal("c")))
	}
}

// A shim that dies while StopContainer runs: no second SIGTERM, and SIGKILL when
// the time that was left is over.
func TestShimKilledDuringStop(t *testing.T) {
	w := env.Apply(t, `
terminationGracePeriodSeconds: 10
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=ignore, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	w.Delete()
	began := w.AwaitFind("c", "signal SIGTERM", 1)[0]
	w.AwaitPhase("c", v1alpha1.KillPhaseStopping)
	kill(t, env.Stack.Shim)
	start(t, env.Stack.Shim)
	kills := w.CollectUntilGone()
	if len(kills) != 1 || kills[0].Outcome != v1alpha1.KillOutcomeForced {
		t.Fatalf("kills %+v, want the one that was begun, Forced", kills)
	}
	if took := kills[0].FinishTime.Sub(began.Time); took > 17*time.Second {
		t.Errorf("SIGKILL came %s after SIGTERM, want about 10s", took)
	}
	if n := len(w.Find("c", "signal SIGTERM")); n != 1 {
		t.Errorf("%d SIGTERMs, want one", n)
	}
}

// An API server that is away stops nothing, and what happens meanwhile is reported
// when it is back.
func TestAPIServerAway(t *testing.T) {
	w := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/c]
  livenessProbe: {exec: {command: [/testprogram, check-no-file, /dir/fail]}, periodSeconds: 1, failureThreshold: 1}
  lifecycle: {preStop: {exec: {command: [/testprogram, rm, /dir/fail]}}}
  volumeMounts: [{name: dir, mountPath: /dir}]
- {name: steady, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/steady], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	kill(t, env.Stack.APIServer)
	touch(t, w, "fail")
	w.AwaitFind("c", "started", 2)
	start(t, env.Stack.APIServer)
	record := w.AwaitTrigger("c", v1alpha1.TriggerLivenessProbe)
	if record.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("outcome %s", record.Outcome)
	}
	w.Await("it is ready", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Ready == "2/2" && nw.Status.Restarts == 1 })
	if got := harness.Texts(w.Journal("steady")); len(got) != 1 {
		t.Errorf("the other container saw %q, want nothing but its start", got)
	}
}

// A shim that starts while the API server is away kills nothing.
func TestShimStartsWithoutAPIServer(t *testing.T) {
	w := env.Apply(t, plain)
	w.AwaitReady()
	kill(t, env.Stack.Shim)
	kill(t, env.Stack.APIServer)
	if err := env.Stack.Shim.Launch(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-env.Stack.Shim.Exited():
		t.Fatalf("the shim ended without an API server:\n%s", env.Stack.Shim.Tail())
	case <-time.After(5 * time.Second):
	}
	start(t, env.Stack.APIServer)
	if err := env.Stack.Shim.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.TerminationGracePeriodSeconds = ptr.To[int64](11) })
	w.Await("the shim works", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Generation > 1 && nw.Status.ObservedGeneration == nw.Generation && nw.Status.Ready == "1/1"
	})
	if got := harness.Texts(w.Journal("c")); len(got) != 1 {
		t.Errorf("the container saw %q, want nothing but its start", got)
	}
}

// A NodeWorkload that is forced away while its shim is up: the worker that knows
// it ends its containers with their full hook and grace.
func TestForceDeletedWithShimUp(t *testing.T) {
	w := env.Apply(t, plain)
	before := w.AwaitReady()
	forceDelete(t, w)
	w.AwaitFind("c", "stopped", 1)
	if got := harness.Texts(w.Journal("c")); !slices.Equal(got[1:4], []string{"preStop", "signal SIGTERM", "stopped code=0"}) {
		t.Errorf("the container saw %q", got)
	}
	after := w.Await("the manager made another", func(nw *v1alpha1.NodeWorkload) bool { return nw.UID != before.UID && nw.Status.Ready == "1/1" })
	starts, ends := w.AwaitFind("c", "started", 2), w.Find("c", "stopped")
	if len(starts) != 2 || starts[1].Time.Before(ends[0].Time) {
		t.Errorf("the new one (%s) did not wait until the old one was gone: %q", after.UID, harness.Texts(w.Journal("c")))
	}
}

// A NodeWorkload that is forced away while its shim is down: its containers are
// orphans, killed with their recorded hook and grace.
func TestForceDeletedWithShimDown(t *testing.T) {
	w := env.Apply(t, plain)
	before := w.AwaitReady()
	kill(t, env.Stack.Shim)
	forceDelete(t, w)
	start(t, env.Stack.Shim)
	w.AwaitFind("c", "stopped", 1)
	if got := harness.Texts(w.Journal("c")); !slices.Equal(got[1:4], []string{"preStop", "signal SIGTERM", "stopped code=0"}) {
		t.Errorf("the orphan saw %q", got)
	}
	w.Await("the manager made another", func(nw *v1alpha1.NodeWorkload) bool { return nw.UID != before.UID && nw.Status.Ready == "1/1" })
	event := w.AwaitEvent("Killed", "orphaned")
	if event.InvolvedObject.Kind != "NodeWorkload" {
		t.Errorf("the event is about a %s", event.InvolvedObject.Kind)
	}
}

// Many orphans at once are kept until a person confirms them by the command of
// docs/operations.md, with the value that the shim's lease names.
func TestManyOrphansWaitForAPerson(t *testing.T) {
	var all []*harness.Workload
	for range 3 {
		w := env.New(t)
		w.Apply(plain)
		all = append(all, w)
	}
	for _, w := range all {
		w.AwaitReady()
	}
	kill(t, env.Stack.Shim)
	for _, w := range all {
		forceDelete(t, w)
	}
	start(t, env.Stack.Shim)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: localstack.SystemNamespace, Name: "managedworkload-shim-" + env.Stack.NodeName(),
	}}
	value := regexp.MustCompile(`confirm-orphans=([0-9a-f]+)`)
	var found []string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, harness.Timeout, true, func(ctx context.Context) (bool, error) {
		err := env.Kube.Get(ctx, client.ObjectKeyFromObject(lease), lease)
		found = value.FindStringSubmatch(lease.Annotations[v1alpha1.AnnotationOrphansHeld])
		return err == nil && found != nil, nil
	})
	if err != nil {
		t.Fatalf("the lease names no value: %v", lease.Annotations)
	}
	for _, w := range all {
		if got := harness.Texts(w.Journal("c")); len(got) != 1 {
			t.Errorf("a held orphan saw %q, want nothing but its start", got)
		}
	}
	docs, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(docs), "    kubectl annotate lease ")
	command, _, ok := strings.Cut(text, "=VALUE\n")
	if !ok {
		t.Fatal("docs/operations.md has no such command")
	}
	command = strings.NewReplacer("NODE", env.Stack.NodeName(), "\\\n", " ").Replace(command) + "=" + found[1]
	if _, err := env.Stack.Kubectl(t.Context(), append([]string{"annotate", "lease"}, strings.Fields(command)...)...); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		w.AwaitFind("c", "stopped", 1)
		if got := harness.Texts(w.Journal("c")); len(got) < 4 || !slices.Equal(got[1:4], []string{"preStop", "signal SIGTERM", "stopped code=0"}) {
			t.Errorf("the orphan saw %q", got)
		}
	}
}

func TestTwoWorkloadsOnOneNode(t *testing.T) {
	a, b := env.Apply(t, plain), env.New(t)
	b.Apply(plain)
	a.AwaitReady()
	b.AwaitReady()
	b.AwaitFind("c", "started", 1)
	a.DeleteAndCollect()
	if got := harness.Texts(b.Journal("c")); len(got) != 1 {
		t.Errorf("the other workload saw %q, want nothing but its start", got)
	}
	if nw := b.Node(); !isRunning(nw) || nw.Status.KillCount != 0 {
		t.Errorf("the other workload: %s, %d kills", nw.Status.Summary, nw.Status.KillCount)
	}
}

// A pod on the socket that is not the shim's own: nothing is started, and it is
// said; the pod itself is left alone.
func TestForeignPods(t *testing.T) {
	running := env.Apply(t, plain)
	running.AwaitReady()
	running.AwaitFind("c", "started", 1)
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cri.Close() })
	foreign, err := cri.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "foreign", Namespace: "other", Uid: "foreign-uid"},
		Labels:   map[string]string{"io.kubernetes.pod.name": "foreign", "io.kubernetes.pod.namespace": "other", "io.kubernetes.pod.uid": "foreign-uid"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    env.Stack.CgroupBelow("foreign"),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	seen := func(nw *v1alpha1.NodeWorkload) bool {
		return slices.ContainsFunc(nw.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionRuntimeUsable && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonForeignPods
		})
	}
	running.Await("the shim has seen the foreign pod", seen)
	w := env.New(t)
	w.Apply(plain)
	nw := w.Await("the condition names the foreign pod", seen)
	if len(containers(t, w)) != 0 {
		t.Errorf("containers were started beside a foreign pod")
	}
	for _, c := range nw.Status.Conditions {
		if c.Type == v1alpha1.ConditionRuntimeUsable && (!strings.Contains(c.Message, "other/foreign") || !strings.Contains(c.Message, "--allow-foreign-pods")) {
			t.Errorf("message %q, want the pod and the flag", c.Message)
		}
	}
	if got := harness.Texts(running.Journal("c")); len(got) != 1 {
		t.Errorf("the running workload saw %q", got)
	}
	if _, err := cri.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: foreign.GetPodSandboxId()}); err != nil {
		t.Fatal(err)
	}
	if _, err := cri.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: foreign.GetPodSandboxId()}); err != nil {
		t.Fatal(err)
	}
	w.AwaitReady()
}

// A container whose state the runtime has lost is killed before it is started
// again, and an older one of unknown state before it is removed.
func TestUnknownState(t *testing.T) {
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, "--http=:8080", --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}],
  livenessProbe: {exec: {command: [/testprogram, check-no-file, /dir/fail]}, periodSeconds: 1, failureThreshold: 1},
  lifecycle: {preStop: {exec: {command: [/testprogram, rm, /dir/fail]}}}}`+dirVolume)
	w.AwaitReady()
	touch(t, w, "fail")
	w.AwaitTrigger("c", v1alpha1.TriggerLivenessProbe)
	w.AwaitFind("c", "started", 2)
	w.AwaitReady()
	kill(t, env.Stack.Containerd)
	for _, c := range statusFiles(t) {
		if slices.Contains(ids(t, w), c.id) {
			corrupt(t, c.path)
		}
	}
	start(t, env.Stack.Containerd)
	record := w.AwaitTrigger("c", v1alpha1.TriggerUnknownState)
	if record.Message != `Container is in "unknown" state, try killing it before restart` {
		t.Errorf("message %q", record.Message)
	}
	collected := w.AwaitTrigger("c", v1alpha1.TriggerGarbageCollection)
	if collected.Message != "Container is in unknown state, try killing it before removal" {
		t.Errorf("message %q", collected.Message)
	}
	starts := w.AwaitFind("c", "started", 3)
	if ends := w.Find("c", "stopped"); len(ends) != 2 || starts[2].Time.Before(ends[1].Time) {
		t.Errorf("two instances at once: %q", harness.Texts(w.Journal("c")))
	}
}

type statusFile struct{ id, path string }

// statusFiles are the checkpoints that containerd reads at its start.
func statusFiles(t *testing.T) []statusFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(env.Stack.StateDir(), "*", "io.containerd.grpc.v1.cri", "containers", "*", "status"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no container status files: %v", err)
	}
	var files []statusFile
	for _, p := range paths {
		files = append(files, statusFile{filepath.Base(filepath.Dir(p)), p})
	}
	return files
}

// ids are the container IDs in the shim's records of the workload.
func ids(t *testing.T, w *harness.Workload) []string {
	t.Helper()
	status := w.Node().Status
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range statusFiles(t) {
		if strings.Contains(string(text), f.id) {
			all = append(all, f.id)
		}
	}
	return all
}

func corrupt(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("lost"), 0o600); err != nil {
		t.Fatal(err)
	}
}
