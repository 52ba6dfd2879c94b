// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package badinput

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// The NodeWorkload of another node is left alone.
func TestAnotherNode(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	other := &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "other"},
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: "elsewhere", Template: w.Parse(plain)},
	}
	if err := env.Kube.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	// What comes later is done: the shim has seen all there is.
	w.Apply(plain)
	w.AwaitReady()
	got := &v1alpha1.NodeWorkload{}
	if err := env.Kube.Get(t.Context(), client.ObjectKeyFromObject(other), got); err != nil {
		t.Fatal(err)
	}
	if got.Status.ObservedGeneration != -1 || got.Status.Phase != "" || len(got.Status.ContainerStatuses) != 0 || len(got.Finalizers) != 0 {
		t.Errorf("the shim has touched it: %+v", got)
	}
	if n := sandboxes(t, w.Namespace); n != 1 {
		t.Errorf("%d sandboxes, want that of this node's workload alone", n)
	}
}

// sandboxes counts those of a namespace, past the proxy.
func sandboxes(t *testing.T, namespace string) int {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	list, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.GetItems())
}

// A hostPath of the wrong type is said with volume and path, and starts once it
// is right.
func TestHostPathOfTheWrongType(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind  string
		words string
		make  func(path string) error
	}{
		"missing directory":     {"Directory", "is not a directory", func(path string) error { return os.Mkdir(path, 0o755) }},
		"missing file":          {"File", "is not a file", func(path string) error { return os.WriteFile(path, nil, 0o644) }},
		"no socket":             {"Socket", "is not a socket file", nil},
		"no character device":   {"CharDevice", "is not a character device", nil},
		"no block device":       {"BlockDevice", "is not a block device", nil},
		"a file as a directory": {"DirectoryOrCreate", "is not a directory", nil},
		"a directory as a file": {"FileOrCreate", "is not a file", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.New(t)
			path := filepath.Join(w.Dir, "thing")
			if tc.kind == "FileOrCreate" {
				if err := os.Mkdir(path, 0o755); err != nil {
					t.Fatal(err)
				}
			} else if tc.make == nil {
				if err := os.WriteFile(path, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			w.Apply(fmt.Sprintf(`
containers: [{name: c, image: %s, volumeMounts: [{name: vol, mountPath: /thing}]}]
volumes: [{name: vol, hostPath: {path: $DIR/thing, type: %s}}]`, testImage, tc.kind))
			want := fmt.Sprintf("MountVolume.SetUp failed for volume %q : hostPath type check failed: %s %s", "vol", path, tc.words)
			event := w.AwaitEvent("FailedMount", want)
			if event.InvolvedObject.Kind != "NodeWorkload" || event.Type != corev1.EventTypeWarning {
				t.Errorf("a %s event about a %s", event.Type, event.InvolvedObject.Kind)
			}
			if n := sandboxes(t, w.Namespace); n != 0 {
				t.Errorf("%d sandboxes were started", n)
			}
			if tc.make == nil {
				return
			}
			if err := tc.make(path); err != nil {
				t.Fatal(err)
			}
			w.AwaitReady()
		})
	}
}

// An image that cannot be pulled is said by the ManagedWorkload as well, and
// harms no other container of the pod.
func TestImageThatCannotBePulled(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- {name: bad, image: "127.0.0.1:1/missing:v1"}
- {name: good, image: `+testImage+`, args: [serve, --log-file=/dir/c], `+dirMount+`}`+dirVolume)
	w.AwaitObject("it says why it is not ready", func(mw *v1alpha1.ManagedWorkload) bool {
		return slices.ContainsFunc(mw.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionFalse &&
				(strings.Contains(c.Message, "ErrImagePull") || strings.Contains(c.Message, "ImagePullBackOff"))
		})
	})
	w.AwaitFind("c", "started", 1)
	nw := w.Await("the other runs", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Ready == "1/2" })
	if nw.Status.Phase != corev1.PodPending && nw.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", nw.Status.Phase)
	}
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.Containers[0].Image = testImage })
	w.AwaitReady()
	if n := len(w.AwaitFind("c", "started", 1)); n != 1 {
		t.Errorf("the good one was started %d times", n)
	}
}

// Hooks whose command does not exist: a postStart hook kills its container, a
// preStop hook is said and holds nothing up.
func TestHookWithoutCommand(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers: [{name: c, image: `+testImage+`, args: [serve, --log-file=/dir/c], `+dirMount+`,
  lifecycle: {postStart: {exec: {command: [/no/such/hook]}}}}]`+dirVolume)
	kill := w.AwaitTrigger("c", v1alpha1.TriggerPostStartHookFailed)
	if kill.Outcome != v1alpha1.KillOutcomeGraceful || kill.Grace.Seconds != 30 {
		t.Errorf("outcome %s, grace %d", kill.Outcome, kill.Grace.Seconds)
	}
	w.AwaitEvent("FailedPostStartHook", "PostStartHook failed")
	w.Await("it backs off", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Summary == "CrashLoopBackOff" })
	w.Change(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/no/such/hook"}}}}
	})
	w.AwaitReady()
	kills := w.DeleteAndCollect()
	i := slices.IndexFunc(kills, func(k v1alpha1.KillRecord) bool { return k.Trigger == v1alpha1.TriggerTermination })
	if i < 0 {
		t.Fatalf("no termination among %+v", kills)
	}
	if last := kills[i]; last.PreStop == nil || last.PreStop.Outcome != v1alpha1.PreStopFailed || last.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("preStop %+v, outcome %s", last.PreStop, last.Outcome)
	}
	w.AwaitEvent("FailedPreStopHook", "PreStopHook failed")
}

// A CRI call that hangs ends at its deadline and is tried again, and meanwhile
// the other workloads are started, restarted and ended as ever.
func TestCallThatHangs(t *testing.T) {
	t.Parallel()
	other := env.Apply(t, `
containers: [{name: c, image: `+testImage+`, args: [serve, --log-file=/dir/c], `+dirMount+`,
  livenessProbe: {exec: {command: [/testprogram, check-no-file, /dir/fail]}, periodSeconds: 1, failureThreshold: 1},
  lifecycle: {preStop: {exec: {command: [/testprogram, rm, /dir/fail]}}}}]`+dirVolume)
	other.AwaitReady()
	w := env.New(t)
	call := criproxy.NewRule(criproxy.Hang, 1, "CreateContainer")
	call.About = w.Namespace
	proxy.Add(call)
	t.Cleanup(func() { proxy.Remove(call) })
	w.Apply(plain)
	begun := time.Now()
	inTime, cancel := context.WithTimeout(t.Context(), harness.Timeout)
	defer cancel()
	if !call.Await(inTime) {
		t.Fatal("no call came in")
	}

	if err := os.WriteFile(filepath.Join(other.Dir, "fail"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	other.AwaitTrigger("c", v1alpha1.TriggerLivenessProbe)
	other.AwaitFind("c", "started", 2)
	third := env.New(t)
	third.Apply(plain)
	third.AwaitReady()
	third.DeleteAndCollect()
	select {
	case <-call.GivenUp():
		t.Fatalf("the call ended after %s, before the others were done: it proves nothing", time.Since(begun))
	default:
	}

	await(t, "the call's deadline", call.GivenUp())
	if took := time.Since(begun); took > 150*time.Second {
		t.Errorf("the deadline came after %s", took)
	}
	w.AwaitReady()
	if n := len(w.AwaitFind("c", "started", 1)); n != 1 {
		t.Errorf("it was started %d times", n)
	}
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(2 * harness.Timeout):
		t.Fatalf("timed out: %s\n%s", what, env.Stack.Shim.Tail())
	}
}

// A CRI socket that is not there at the shim's start: it waits, says so, and
// continues when the runtime is there. Containers that ran continue to run. It stops
// containerd, so no other test runs beside it.
func TestRuntimeComesLater(t *testing.T) {
	running := env.Apply(t, plain)
	before := running.AwaitReady()
	later := env.New(t)
	for _, c := range []interface {
		Stop(context.Context) error
	}{env.Stack.Shim, env.Stack.Containerd} {
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if !env.Stack.Containerd.Running() {
			if err := env.Stack.Containerd.Start(context.Background()); err != nil {
				t.Errorf("start containerd again: %v", err)
			}
		}
	})
	logged, err := env.Stack.Shim.Log()
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.Shim.Launch(); err != nil {
		t.Fatal(err)
	}
	later.Apply(plain)
	later.Await("the condition tells", func(nw *v1alpha1.NodeWorkload) bool {
		return slices.ContainsFunc(nw.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionRuntimeUsable && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonRuntimeNotReady
		})
	})
	if !env.Stack.Shim.Running() {
		t.Fatalf("the shim has ended:\n%s", env.Stack.Shim.Tail())
	}
	now, err := env.Stack.Shim.Log()
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "the shim's log", strings.TrimPrefix(now, logged), "untime") // Runtime or runtime
	if err := env.Stack.Containerd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.Shim.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	later.AwaitReady()
	running.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.TerminationGracePeriodSeconds = new(int64) })
	after := running.Await("the new shim has it", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Generation > before.Generation && nw.Status.ObservedGeneration == nw.Generation && nw.Status.Ready == "1/1"
	})
	if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID || len(running.AwaitFind("c", "started", 1)) != 1 {
		t.Errorf("the container was started again: %q", harness.Texts(running.Journal("c")))
	}
}
