// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A container whose state stays unknown, whatever is done, is killed again in
// each sync, and no other is started beside it; the error says so. Once the kill
// succeeds another one starts.
func TestUnknownForGood(t *testing.T) {
	for name, edit := range map[string]func(c *fakeContainer){
		"cannot be stopped": func(c *fakeContainer) { c.StopError = "Unknown" },
		"seems to stop":     func(c *fakeContainer) { c.RunsOn = true },
	} {
		t.Run(name, func(t *testing.T) { checkUnknownForGood(t, edit) })
	}
}

func checkUnknownForGood(t *testing.T, edit func(c *fakeContainer)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Images = map[string]bool{"img:1": true}
		f.running("app", func(c *fakeContainer) {
			c.State = plan.ContainerUnknown
			edit(c)
		})
		f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
		e, pod := newFakeExecutor(f), testPod(30, nil)
		backoff := map[string]*plan.Backoff{}
		sync := func() plan.SyncOutcome {
			observed := f.observed()
			actions := plan.Compute(plan.Input{Pod: pod, Observed: observed})
			return e.SyncPod(t.Context(), plan.SyncRequest{Pod: pod, Observed: observed, Actions: actions, Backoff: backoff})
		}
		for n := 1; n <= 3; n++ {
			result := sync()
			if err := result.Err; err == nil || !strings.Contains(err.Error(), "KillContainerError") {
				t.Errorf("sync %d: error %v", n, err)
			}
			if len(f.stopCalls()) != n || len(f.ops("CreateContainer")) != 0 {
				t.Fatalf("sync %d: stops %v, creations %v", n, f.stopCalls(), f.ops("CreateContainer"))
			}
			time.Sleep(time.Minute)
		}
		for _, rec := range f.lastRecords() {
			if rec.Trigger != v1alpha1.TriggerUnknownState || rec.Phase != v1alpha1.KillPhaseDone || rec.Outcome != v1alpha1.KillOutcomeFailed {
				t.Errorf("record %+v", rec)
			}
		}
		f.Containers[0].StopError, f.Containers[0].RunsOn = "", false
		if result := sync(); result.Err != nil || len(f.ops("StartContainer")) != 1 {
			t.Errorf("error %v, starts %v", result.Err, f.ops("StartContainer"))
		}
	})
}

// A container that runs on, although the runtime reported that it was stopped, has
// no other started beside it, neither in its sandbox nor in a new one; the error
// says so. Once it has left another one starts.
func TestStoppedAndRunsOn(t *testing.T) {
	for name, edit := range map[string]func(f *fakeRuntime){
		"in its sandbox":   func(*fakeRuntime) {},
		"in a new sandbox": func(f *fakeRuntime) { f.Sandboxes[0].State = plan.SandboxNotReady },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Images = map[string]bool{"img:1": true}
				f.running("app", func(c *fakeContainer) { c.RunsOn = true })
				f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
				edit(f)
				e, pod := newFakeExecutor(f), testPod(30, nil)
				probes := map[string]plan.ProbeResults{"app-id": {Liveness: plan.ProbeFailure}}
				sync := func() plan.SyncOutcome {
					observed := f.observed()
					actions := plan.Compute(plan.Input{Pod: pod, Observed: observed, Probes: probes})
					return e.SyncPod(t.Context(), plan.SyncRequest{Pod: pod, Observed: observed, Actions: actions, Backoff: map[string]*plan.Backoff{}})
				}
				for range 2 {
					result := sync()
					if err := result.Err; err == nil || !strings.Contains(err.Error(), "runs although") {
						t.Errorf("error %v", err)
					}
					if started := append(f.ops("CreateContainer"), f.ops("RunPodSandbox")...); len(started) != 0 {
						t.Fatalf("started beside it: %v", started)
					}
				}
				f.Containers[0].RunsOn = false
				if result := sync(); result.Err != nil || len(f.ops("StartContainer")) != 1 {
					t.Errorf("error %v, starts %v", result.Err, f.ops("StartContainer"))
				}
			})
		})
	}
}

// A runtime that reports an end a little later than it announced it has not failed.
func TestStoppedAndToldLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", func(c *fakeContainer) { c.RunsOn = true })
		e := newFakeExecutor(f)
		go func() {
			time.Sleep(time.Second)
			f.Exit(f.Containers[0], 0)
		}()
		pod := testPod(30, nil)
		if err := e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe})); err != nil {
			t.Error(err)
		}
		for _, rec := range f.lastRecords() {
			if rec.Outcome != v1alpha1.KillOutcomeGraceful {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

// The kubelet leaves a container in unknown state to the end of its sandbox, which
// kills it by force. Here the pod's kill includes it, with its hook, and does not
// fail where the state stays unknown: the sandbox ends it for sure.
func TestPodKillIncludesUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(c *fakeContainer)
		want []stopCall
	}{
		"stops":                {func(c *fakeContainer) { c.State = plan.ContainerUnknown }, []stopCall{{"app", 1, 29}}},
		"stays unknown":        {func(c *fakeContainer) { c.State, c.RunsOn = plan.ContainerUnknown, true }, []stopCall{{"app", 1, 29}}},
		"exited: left alone":   {func(c *fakeContainer) { c.State = plan.ContainerExited }, nil},
		"created: not running": {func(c *fakeContainer) { c.State = plan.ContainerCreated }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 1}}
				f.running("app", tt.edit)
				f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
				_, err := newFakeExecutor(f).KillPod(t.Context(), plan.KillRequest{
					Pod: testPod(30, withPreStopExec), Observed: f.observed(), Trigger: v1alpha1.TriggerTermination,
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff(tt.want, f.stopCalls()); diff != "" {
					t.Error(diff)
				}
				if records, want := len(f.lastRecords()), len(tt.want); records != want {
					t.Errorf("%d records, want %d", records, want)
				}
				if len(f.ops("StopPodSandbox")) != 1 {
					t.Error("the sandbox was not stopped")
				}
			})
		})
	}
}
