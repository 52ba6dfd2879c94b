// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

const testUID = "uid-1"

// testPod is a pod with one container "app" and a grace period; edit changes it.
func testPod(grace int64, edit func(pod *corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: testUID},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "app", Image: "img:1"}},
		},
	}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func withPreStopExec(pod *corev1.Pod) {
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"prestop", "app"}}},
	}
}

func withSidecar(pod *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "img:1", RestartPolicy: &always}}
}

// running puts a running container on the runtime.
func (f *fakeRuntime) running(name string, edit func(c *fakeContainer)) *fakeContainer {
	c := &fakeContainer{}
	c.ID, c.Name, c.State, c.StartedAt = name+"-id", name, plan.ContainerRunning, time.Now()
	c.SandboxID, c.RestartCount, c.StopSignal, c.PodUID = "sb", 3, "SIGTERM", string(testUID)
	if edit != nil {
		edit(c)
	}
	f.Containers = append(f.Containers, c)
	return c
}

func ignoresTerm(c *fakeContainer) { c.IgnoresTerm = true }

// stopCall is a StopContainer call in a test's words.
type stopCall struct {
	Container string
	At        float64
	Timeout   float64
}

func (f *fakeRuntime) stopCalls() []stopCall {
	var calls []stopCall
	for _, e := range f.ops("StopContainer") {
		calls = append(calls, stopCall{e.Text("container"), e.Time(), e["timeout"].(float64)})
	}
	return calls
}

func TestShortenDuringEachPhase(t *testing.T) {
	tests := map[string]struct {
		edit      func(pod *corev1.Pod)
		hook      recordings.Hook
		sidecar   bool
		after     time.Duration
		to        int64
		wantStops []stopCall
		wantEnd   float64
		wantHook  v1alpha1.PreStopOutcome
		wantGrace int64
	}{
		"the hook is cancelled at the new deadline": {
			edit: withPreStopExec, hook: recordings.Hook{Seconds: 100}, after: 10 * time.Second, to: 5,
			wantStops: []stopCall{{"app", 15, 2}}, wantEnd: 17, wantHook: v1alpha1.PreStopTimedOut, wantGrace: 15,
		},
		"a hook that ends before the new deadline leaves the rest": {
			edit: withPreStopExec, hook: recordings.Hook{Seconds: 12}, after: 10 * time.Second, to: 5,
			wantStops: []stopCall{{"app", 12, 3}}, wantEnd: 15, wantHook: v1alpha1.PreStopSucceeded, wantGrace: 15,
		},
		"a wait for its turn ends": {
			sidecar: true, after: 10 * time.Second, to: 4,
			// The main container's first call continues; the sidecar waits no longer.
			wantStops: []stopCall{{"app", 0, 60}, {"app", 10, 4}, {"side", 14, 2}}, wantEnd: 16, wantGrace: 14,
		},
		"a second StopContainer has the smaller timeout": {
			after: 10 * time.Second, to: 5,
			wantStops: []stopCall{{"app", 0, 60}, {"app", 10, 5}}, wantEnd: 15, wantGrace: 15,
		},
		"never less than two seconds": {
			after: 10 * time.Second, to: 0,
			wantStops: []stopCall{{"app", 0, 60}, {"app", 10, 2}}, wantEnd: 12, wantGrace: 10,
		},
		"a longer time changes nothing": {
			after: 10 * time.Second, to: 55,
			wantStops: []stopCall{{"app", 0, 60}}, wantEnd: 60, wantGrace: 60,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"prestop/app": tc.hook}
				edit := tc.edit
				if tc.sidecar {
					edit = withSidecar
					f.running("side", ignoresTerm)
				}
				f.running("app", ignoresTerm)
				e := newFakeExecutor(f)
				pod := testPod(60, edit)
				done := make(chan error)
				go func() {
					_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: pod, Observed: f.observed(), Trigger: v1alpha1.TriggerTermination})
					done <- err
				}()
				time.Sleep(tc.after)
				e.Shorten(testUID, tc.to)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if got := time.Since(f.start).Seconds(); got != tc.wantEnd {
					t.Errorf("ended after %v s, want %v", got, tc.wantEnd)
				}
				if diff := gocmp.Diff(tc.wantStops, f.stopCalls()); diff != "" {
					t.Errorf("StopContainer (-want +got):\n%s", diff)
				}
				for _, rec := range f.lastRecords() {
					if rec.Grace.Seconds != tc.wantGrace {
						t.Errorf("%s: grace %d, want %d", rec.Container, rec.Grace.Seconds, tc.wantGrace)
					}
					if shortened := rec.Grace.ShortenedFromSeconds; (shortened != nil) != (tc.wantGrace != 60) ||
						(shortened != nil && *shortened != 60) {
						t.Errorf("%s: shortenedFromSeconds %v", rec.Container, shortened)
					}
					if tc.wantHook != "" && rec.PreStop.Outcome != tc.wantHook {
						t.Errorf("hook: %s, want %s", rec.PreStop.Outcome, tc.wantHook)
					}
					if rec.Outcome != v1alpha1.KillOutcomeForced {
						t.Errorf("%s: outcome %s, want Forced", rec.Container, rec.Outcome)
					}
				}
			})
		})
	}
}

func TestShortenReachesNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", ignoresTerm)
		e := newFakeExecutor(f)
		done := make(chan error)
		go func() {
			done <- e.KillContainer(t.Context(), testPod(20, nil), killApp(testPod(20, nil), f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
		}()
		time.Sleep(time.Second)
		e.Shorten("another", 1)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]stopCall{{"app", 0, 20}}, f.stopCalls()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestShortenReachesAKillOfASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", ignoresTerm)
		e := newFakeExecutor(f)
		ctx, cancel := context.WithCancel(t.Context())
		pod := testPod(60, func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "next", Image: "img:1"})
		})
		result := make(chan plan.SyncOutcome)
		go func() {
			result <- e.SyncPod(ctx, plan.SyncRequest{Pod: pod, Observed: f.observed(), Actions: plan.Actions{
				SandboxID:         "sb",
				ContainersToKill:  []plan.Kill{killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe})},
				ContainersToStart: []int{1},
			}})
		}()
		time.Sleep(3 * time.Second)
		cancel() // the deletion arrives
		e.Shorten(testUID, 4)
		got := <-result
		if diff := gocmp.Diff([]stopCall{{"app", 0, 60}, {"app", 3, 4}}, f.stopCalls()); diff != "" {
			t.Error(diff)
		}
		if !errors.Is(got.Err, context.Canceled) || len(f.ops("CreateContainer")) > 0 {
			t.Errorf("the sync continued after the deletion: %v %v", got.Err, f.ops("CreateContainer"))
		}
		if len(got.Results) != 1 || got.Results[0].Err != nil {
			t.Errorf("results: %+v", got.Results)
		}
	})
}

func TestInterruptLeavesKillsOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(pod *corev1.Pod)
		phase v1alpha1.KillPhase
	}{
		"in the hook":     {withPreStopExec, v1alpha1.KillPhasePreStop},
		"while it stops":  {nil, v1alpha1.KillPhaseStopping},
		"waiting, before": {withSidecar, v1alpha1.KillPhaseWaitingForTurn},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 100}}
				f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
				f.running("app", ignoresTerm)
				if tc.phase == v1alpha1.KillPhaseWaitingForTurn {
					f.running("side", ignoresTerm)
				}
				e := newFakeExecutor(f)
				done := make(chan error)
				go func() {
					_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: testPod(60, tc.edit), Observed: f.observed(), Trigger: v1alpha1.TriggerTermination})
					done <- err
				}()
				time.Sleep(time.Second)
				e.Interrupt()
				if err := <-done; !errors.Is(err, ErrInterrupted) {
					t.Fatalf("want ErrInterrupted, got %v", err)
				}
				if time.Since(f.start) != time.Second {
					t.Errorf("took %v", time.Since(f.start))
				}
				phases := []v1alpha1.KillPhase{}
				for _, rec := range f.lastRecords() {
					phases = append(phases, rec.Phase)
				}
				if !slices.Contains(phases, tc.phase) || slices.Contains(phases, v1alpha1.KillPhaseDone) {
					t.Errorf("phases %v, want %s open", phases, tc.phase)
				}
				if len(f.ops("StopPodSandbox")) > 0 {
					t.Error("the sandbox was stopped: that kills by force what still has time")
				}
			})
		})
	}
}

func TestHookLongerThanGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 3600}}
		f.running("app", nil)
		e := newFakeExecutor(f)
		why := plan.Kill{
			Trigger: v1alpha1.TriggerDefinitionChanged, Message: "Container app definition changed", RequestedBy: "shim",
			ChangedFields: []string{"image"},
		}
		err := e.KillContainer(t.Context(), testPod(5, withPreStopExec), killApp(testPod(5, withPreStopExec), f, why))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]stopCall{{"app", 5, 2}}, f.stopCalls()); diff != "" {
			t.Error(diff)
		}
		events := f.ops("Event")
		last := events[len(events)-1]
		if len(events) != 2 || last.Text("reason") != "FailedPreStopHook" || last.Text("message") != preStopCancelledMessage {
			t.Errorf("events: %v", events)
		}
		rec := f.lastRecords()[0]
		stop, code := int64(2), int32(0)
		start := f.start
		want := v1alpha1.KillRecord{
			ID: rec.ID, Container: "app", ContainerID: "app-id", RestartCount: 3, Trigger: v1alpha1.TriggerDefinitionChanged,
			RequestedBy: "shim", Message: "Container app definition changed", Phase: v1alpha1.KillPhaseDone,
			ChangedFields: []string{"image"},
			Grace: v1alpha1.KillGrace{Seconds: 5, Source: v1alpha1.GraceSourcePod, UsedSeconds: 5,
				Deadline: &metav1.MicroTime{Time: start.Add(5 * time.Second)}},
			PreStop:    &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopTimedOut, Seconds: 5},
			StopSignal: "SIGTERM", StopTimeoutSeconds: &stop, Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: &code, Reason: "Completed",
			StartTime: metav1.MicroTime{Time: start}, StopTime: &metav1.MicroTime{Time: start.Add(5 * time.Second)},
			FinishTime: &metav1.MicroTime{Time: start.Add(5 * time.Second)},
		}
		if diff := gocmp.Diff(want, rec); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		if first := f.kills[0]; first.Phase != v1alpha1.KillPhasePreStop || first.Outcome != "" {
			t.Errorf("the record was not begun before the hook: %+v", first)
		}
	})
}

func TestCancelledCallerLeavesTheKillOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 3600}}
		f.running("app", nil)
		e := newFakeExecutor(f)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := e.KillContainer(ctx, testPod(60, withPreStopExec), killApp(testPod(60, withPreStopExec), f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want the context's error, got %v", err)
		}
		if len(f.stopCalls()) > 0 || f.lastRecords()[0].Phase != v1alpha1.KillPhasePreStop {
			t.Errorf("the container was stopped: %v %v", f.stopCalls(), f.lastRecords())
		}
	})
}

func TestCancelledCallerDoesNotCutStopContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", ignoresTerm)
		e := newFakeExecutor(f)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := e.KillContainer(ctx, testPod(10, nil), killApp(testPod(10, nil), f, plan.Kill{Trigger: v1alpha1.TriggerTermination})); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(f.start); got != 10*time.Second {
			t.Errorf("took %v, want the whole grace period", got)
		}
	})
}
