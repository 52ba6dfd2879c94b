// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// failingExec is a runtime whose commands fail, with what cri wraps around it.
type failingExec struct {
	*fakeRuntime
	kind string
}

func (f failingExec) ExecSync(context.Context, string, []string, time.Duration) ([]byte, []byte, int32, error) {
	return nil, nil, 0, fmt.Errorf("run a command in container %q: %w", "app-id", errorOf(f.kind))
}

// What a person reads about a failed hook is what the kubelet would say.
func TestHookWords(t *testing.T) {
	exec := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"a", "b"}}}
	const execFailed = `Exec lifecycle hook ([a b]) for Container "app" in Pod "pod_ns(uid)" failed - error: `
	tests := map[string]struct {
		kind string
		hook *corev1.LifecycleHandler
		want string
	}{
		"the runtime's own error": {
			kind: "Unknown", hook: exec,
			want: execFailed + `rpc error: code = Unknown desc = runtime exploded, message: ""`,
		},
		"a call that ran out of time": {
			kind: "DeadlineExceeded", hook: exec,
			want: execFailed + `command timed out: "a b" timed out after 0s, message: ""`,
		},
		"a port that is not named": {
			hook: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "h", Path: "/p", Port: intstr.FromString("nowhere")}},
			want: `HTTP lifecycle hook (/p) for Container "app" in Pod "pod_ns(uid)" failed - error: strconv.Atoi: parsing "nowhere": invalid syntax`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFakeRuntime()
			pod := testPod(30, nil)
			pod.Name, pod.Namespace, pod.UID = "pod", "ns", "uid"
			h := &handlers{runtime: failingExec{f, tc.kind}, events: f, http: http.DefaultClient}
			message, err := h.Run(t.Context(), "app-id", pod, &pod.Spec.Containers[0], tc.hook)
			if err == nil || message != tc.want {
				t.Errorf("error %v, message\n%s\nwant\n%s", err, message, tc.want)
			}
		})
	}
}

// A sandbox whose status cannot be read ends the sync; the event's reason is not
// the name that the kubelet's code has for it.
func TestSandboxStatusFails(t *testing.T) {
	f := newFakeRuntime()
	f.Fail("PodSandboxStatus", "", "Unknown")
	in := startApp(testPod(30, nil), f)
	in.Actions.CreateSandbox, in.Actions.SandboxID = true, ""
	result := newFakeExecutor(f).SyncPod(t.Context(), in)
	if result.Err == nil || len(f.ops("CreateContainer")) > 0 {
		t.Errorf("the sync continued: %+v", result)
	}
	if got := f.reasons(); !slices.Equal(got, []string{"FailedPodSandBoxStatus"}) {
		t.Errorf("events %q", got)
	}
}

// Why a pod could not be killed is reported in the kubelet's words, in one line: they
// become an event.
func TestWordsOfAFailedKill(t *testing.T) {
	const app = `failed to "KillContainer" for "app" with KillContainerError: "rpc error: code = Unknown desc = runtime exploded"`
	const sandbox = `failed to "KillPodSandbox" for "` + string(testUID) + `" with KillPodSandboxError: "rpc error: code = Unavailable desc = connection refused"`
	for want, sandboxError := range map[string]string{app: "", "[" + app + ", " + sandbox + "]": "Unavailable"} {
		f := newFakeRuntime()
		f.running("app", func(c *fakeContainer) { c.StopError = "Unknown" })
		f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb"}, StopError: sandboxError}}
		_, err := newKubeletExecutor(f).KillPod(t.Context(), plan.KillRequest{Pod: testPod(30, nil), Observed: f.observed(), Trigger: v1alpha1.TriggerTermination})
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
