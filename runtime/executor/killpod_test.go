// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A container whose kill failed before its grace period was over is not killed by
// force with its sandbox; the kubelet does that. One that had its time is.
func TestSandboxStaysWhileAKillFails(t *testing.T) {
	tests := map[string]struct {
		differences plan.Differences
		edit        func(*fakeContainer)
		wantStops   int // of the sandbox
		wantLater   int // when a kill fails after the grace period of the first, 30 s
	}{
		"the runtime refuses at once": {
			plan.AllDifferences(), func(c *fakeContainer) { c.StopError = "Unavailable" }, 0, 0,
		},
		"the runtime cannot send the signal": {
			plan.AllDifferences(), func(c *fakeContainer) { c.StopError = "InvalidArgument" }, 0, 1,
		},
		"as the kubelet": {
			plan.Differences{}, func(c *fakeContainer) { c.StopError = "Unavailable" }, 1, 0,
		},
		"the runtime fails when the time is over": {
			plan.AllDifferences(), func(c *fakeContainer) { c.StopError, c.IgnoresTerm = "Unavailable", true }, 0, 0,
		},
		"the container leaves": {plan.AllDifferences(), func(*fakeContainer) {}, 1, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", tt.edit)
				f.SandboxKills = true
				f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
				e, request := newExecutorWith(f, tt.differences), plan.KillRequest{
					Pod: testPod(30, nil), Observed: f.observed(), Trigger: v1alpha1.TriggerTermination,
				}
				begun := time.Now()
				_, err := e.KillPod(t.Context(), request)
				if failed := f.Containers[0].StopError != ""; (err != nil) != failed {
					t.Errorf("error %v", err)
				}
				if n := len(f.ops("StopPodSandbox")); n != tt.wantStops {
					t.Fatalf("the sandbox was stopped %d times, want %d", n, tt.wantStops)
				}
				if tt.wantStops > 0 {
					return
				}
				request.Observed = f.observed()
				if time.Since(begun) < 28*time.Second { // two kills that fail at the end are another test's
					time.Sleep(28*time.Second - time.Since(begun))
					_, err = e.KillPod(t.Context(), request)
					if n := len(f.ops("StopPodSandbox")); err == nil || n != 0 {
						t.Fatalf("within the grace period: error %v, the sandbox was stopped %d times", err, n)
					}
					time.Sleep(2 * time.Second)
					_, err = e.KillPod(t.Context(), request)
					if n := len(f.ops("StopPodSandbox")); err == nil || n != tt.wantLater {
						t.Errorf("after the grace period: error %v, the sandbox was stopped %d times", err, n)
					}
				}
				if tt.wantLater > 0 {
					return
				}
				f.Containers[0].StopError = ""
				request.Observed = f.observed()
				if _, err := e.KillPod(t.Context(), request); err != nil || len(f.ops("StopPodSandbox")) != 1 {
					t.Errorf("once the runtime answers: %v, %d stops of the sandbox", err, len(f.ops("StopPodSandbox")))
				}
			})
		})
	}
}

// What failed long ago, and what the runtime was not asked because it was away, takes no time of a kill that the
// runtime refuses at once.
func TestOtherFailuresTakeNoTimeOfAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", func(*fakeContainer) {})
		f.SandboxKills = true
		f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
		e := newExecutorWith(f, plan.AllDifferences())
		for _, failure := range []struct {
			after     time.Duration
			err       string
			wantStops int
		}{
			{0, "Unavailable", 0},
			{40 * time.Second, "InvalidArgument", 0}, // the first that it refuses
			{time.Hour, "InvalidArgument", 0},        // another series
			{20 * time.Second, "InvalidArgument", 0},
			{11 * time.Second, "InvalidArgument", 1},
		} {
			time.Sleep(failure.after)
			f.Containers[0].StopError = failure.err
			_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: testPod(30, nil), Observed: f.observed(), Trigger: v1alpha1.TriggerTermination})
			if n := len(f.ops("StopPodSandbox")); err == nil || n != failure.wantStops {
				t.Errorf("%s after %s: error %v, the sandbox was stopped %d times, want %d", failure.err, failure.after, err, n, failure.wantStops)
			}
		}
	})
}

// A runtime that fails each time at the end of the stop is not waited for for ever: the
// sandbox is stopped when a second kill has failed with its time over.
func TestSandboxIsStoppedWhenTwoKillsHaveFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", func(c *fakeContainer) { c.StopError, c.IgnoresTerm = "Unavailable", true })
		f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
		e := newExecutorWith(f, plan.AllDifferences())
		for _, want := range []int{0, 1} {
			_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: testPod(30, nil), Observed: f.observed(), Trigger: v1alpha1.TriggerTermination})
			if stops := len(f.ops("StopPodSandbox")); err == nil || stops != want {
				t.Errorf("error %v, the sandbox was stopped %d times, want %d", err, stops, want)
			}
		}
	})
}

// A container whose state stays unknown after its kill ends with its sandbox. Where
// that stays, because the kill of another failed, it may run on: its kill failed too.
func TestUnknownInASandboxThatStays(t *testing.T) {
	for name, tt := range map[string]struct {
		other      string // the error that the other container is stopped with
		wantFailed []string
	}{
		"the sandbox ends":  {"", nil},
		"the sandbox stays": {"Unavailable", []string{"app", "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", func(c *fakeContainer) { c.State, c.RunsOn = plan.ContainerUnknown, true })
				f.running("other", func(c *fakeContainer) { c.StopError = tt.other })
				f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
				pod := testPod(30, func(pod *corev1.Pod) {
					pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "other", Image: "img:1"})
				})
				results, _ := newFakeExecutor(f).KillPod(t.Context(), plan.KillRequest{Pod: pod, Observed: f.observed(), Trigger: v1alpha1.TriggerTermination})
				var failed []string
				for _, r := range results {
					if r.Err != nil {
						failed = append(failed, r.Target)
					}
				}
				if slices.Sort(failed); !slices.Equal(failed, tt.wantFailed) {
					t.Errorf("failed %q, want %q", failed, tt.wantFailed)
				}
			})
		})
	}
}
