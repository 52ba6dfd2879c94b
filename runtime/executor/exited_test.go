// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// ended is what a record says about a container that exited before its stop signal.
type ended struct {
	Outcome     v1alpha1.KillOutcome
	During      v1alpha1.KillPhase
	PreStop     v1alpha1.PreStopOutcome
	UsedSeconds int64
	Stops       []stopCall
}

func endedOf(f *fakeRuntime, container string) ended {
	var got ended
	for _, rec := range f.lastRecords() {
		if rec.Container == container {
			got = ended{Outcome: rec.Outcome, During: rec.ExitedDuring, UsedSeconds: rec.Grace.UsedSeconds}
			if rec.PreStop != nil {
				got.PreStop = rec.PreStop.Outcome
			}
		}
	}
	for _, call := range f.stopCalls() {
		if call.Container == container {
			got.Stops = append(got.Stops, call)
		}
	}
	return got
}

func withPreStopSleep(pod *corev1.Pod) {
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 12}}}
}

// A container that exits while its hook runs needs no hook any more, and the record says what was
// seen: nothing that the stop signal did.
func TestHookOfADeadContainerEnds(t *testing.T) {
	tests := map[string]struct {
		code int32
		want ended
	}{
		"somebody killed it": {code: 137, want: ended{Outcome: v1alpha1.KillOutcomeAlreadyStopped}},
		"its hook asked it":  {code: 0, want: ended{Outcome: v1alpha1.KillOutcomeGraceful}},
		"it failed":          {code: 3, want: ended{Outcome: v1alpha1.KillOutcomeGraceful}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				c := f.running("app", nil)
				e, pod := newFakeExecutor(f), testPod(30, withPreStopSleep)
				time.AfterFunc(3500*time.Millisecond, func() {
					f.Exit(c, tc.code)
					e.NoteExits(t.Context(), testUID)
				})
				if err := e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination})); err != nil {
					t.Fatal(err)
				}
				tc.want.During, tc.want.PreStop, tc.want.UsedSeconds = v1alpha1.KillPhasePreStop, v1alpha1.PreStopFailed, 3
				tc.want.Stops = []stopCall{{"app", 3.5, 27}}
				if diff := gocmp.Diff(tc.want, endedOf(f, "app")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				events := f.ops("Event")
				if last := events[len(events)-1]; last["message"] != "PreStopHook not completed, the container has exited" {
					t.Errorf("last event %v", last)
				}
			})
		})
	}
}

// A container that is removed while its hook runs needs no hook any more either. Its exit code
// is unknown.
func TestHookOfARemovedContainerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", func(c *fakeContainer) { c.StopError = "NotFound" })
		e, pod := newFakeExecutor(f), testPod(30, withPreStopSleep)
		time.AfterFunc(3500*time.Millisecond, func() {
			f.removed.Store(true)
			e.NoteExits(t.Context(), testUID)
		})
		begun := time.Now()
		if err := e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination})); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took >= 12*time.Second {
			t.Errorf("the kill took %s: it waited for the hook", took)
		}
		got := f.lastRecords()[0]
		if got.Outcome != "" || got.PreStop.Outcome != v1alpha1.PreStopFailed || got.Error != "the runtime does not know the container any more" {
			t.Errorf("outcome %q, hook %s, error %q", got.Outcome, got.PreStop.Outcome, got.Error)
		}
	})
}

// A sidecar that exits while it waits for its turn waits no longer, and was not asked to.
func TestWaitOfADeadSidecarEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", func(c *fakeContainer) { c.StopSeconds = 10 })
		side := f.running("side", nil)
		e, pod := newFakeExecutor(f), testPod(30, withSidecar)
		time.AfterFunc(3500*time.Millisecond, func() {
			f.Exit(side, 1)
			e.NoteExits(t.Context(), testUID)
		})
		_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: pod, Observed: f.observed(), Trigger: v1alpha1.TriggerTermination})
		if err != nil {
			t.Fatal(err)
		}
		want := ended{Outcome: v1alpha1.KillOutcomeAlreadyStopped, During: v1alpha1.KillPhaseWaitingForTurn, UsedSeconds: 3, Stops: []stopCall{{"side", 3.5, 27}}}
		if diff := gocmp.Diff(want, endedOf(f, "side")); diff != "" {
			t.Errorf("side (-want +got):\n%s", diff)
		}
		want = ended{Outcome: v1alpha1.KillOutcomeGraceful, UsedSeconds: 10, Stops: []stopCall{{"app", 0, 30}}}
		if diff := gocmp.Diff(want, endedOf(f, "app")); diff != "" {
			t.Errorf("app (-want +got):\n%s", diff)
		}
	})
}

// News about containers that run, or that were asked to stop already, ends no phase.
func TestNewsOfTheLivingEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", func(c *fakeContainer) { c.StopSeconds = 3 })
		e, pod := newFakeExecutor(f), testPod(30, withPreStopSleep)
		for _, after := range []time.Duration{time.Second, 13 * time.Second} {
			time.AfterFunc(after, func() { e.NoteExits(t.Context(), testUID) })
		}
		if err := e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination})); err != nil {
			t.Fatal(err)
		}
		want := ended{Outcome: v1alpha1.KillOutcomeGraceful, PreStop: v1alpha1.PreStopSucceeded, UsedSeconds: 15, Stops: []stopCall{{"app", 12, 18}}}
		if diff := gocmp.Diff(want, endedOf(f, "app")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A shim that was away during the hook says what the runtime does of a container that exited then.
func TestExitInAHookThatWasCutOff(t *testing.T) {
	for name, tc := range map[string]struct {
		code int32
		want v1alpha1.KillOutcome
	}{
		"by SIGKILL":  {137, v1alpha1.KillOutcomeAlreadyStopped},
		"by its hook": {0, v1alpha1.KillOutcomeGraceful},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", func(c *fakeContainer) {
					c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, tc.code, time.Now().Add(-5*time.Second)
				})
				e, pod := newFakeExecutor(f), testPod(30, withPreStopSleep)
				rec := inHook(cutRecord(10*time.Second, v1alpha1.KillPhasePreStop, 30))
				if err := e.Resume(t.Context(), pod, []plan.KillProgress{{Record: rec}}); err != nil {
					t.Fatal(err)
				}
				if got := endedOf(f, "app"); got.Outcome != tc.want || got.During != v1alpha1.KillPhasePreStop {
					t.Errorf("got %+v, want %s during the hook", got, tc.want)
				}
			})
		})
	}
}
