// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// cutRecord is the record of a kill that began age ago and was cut off.
func cutRecord(age time.Duration, phase v1alpha1.KillPhase, grace int64) v1alpha1.KillRecord {
	start := time.Now().Add(-age)
	return v1alpha1.KillRecord{
		ID: "k1", Container: "app", ContainerID: "app-id", Trigger: v1alpha1.TriggerTermination, Phase: phase,
		StartTime: metav1.MicroTime{Time: start},
		Grace: v1alpha1.KillGrace{Seconds: grace, Source: v1alpha1.GraceSourcePod,
			Deadline: &metav1.MicroTime{Time: start.Add(time.Duration(grace) * time.Second)}},
	}
}

func inHook(rec v1alpha1.KillRecord) v1alpha1.KillRecord {
	rec.PreStop = &v1alpha1.KillPreStop{Handler: "exec"}
	return rec
}

func afterHook(rec v1alpha1.KillRecord) v1alpha1.KillRecord {
	rec.PreStop = &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded, Seconds: 1}
	return rec
}

func stopping(rec v1alpha1.KillRecord, since time.Duration, timeout int64) v1alpha1.KillRecord {
	rec.StopTime = &metav1.MicroTime{Time: time.Now().Add(-since)}
	rec.StopTimeoutSeconds = &timeout
	return rec
}

func TestResume(t *testing.T) {
	tests := map[string]struct {
		record      func() v1alpha1.KillRecord
		hookSeconds float64
		edit        func(c *fakeContainer)
		wantHooks   int
		wantStops   []stopCall
		wantOutcome v1alpha1.KillOutcome
		wantPreStop v1alpha1.PreStopOutcome
	}{
		"a hook that was cut off runs again in what is left": {
			record:      func() v1alpha1.KillRecord { return inHook(cutRecord(10*time.Second, v1alpha1.KillPhasePreStop, 30)) },
			hookSeconds: 5, wantHooks: 1, wantStops: []stopCall{{"app", 5, 15}}, wantOutcome: v1alpha1.KillOutcomeGraceful,
			wantPreStop: v1alpha1.PreStopSucceeded,
		},
		"and is cancelled at the old deadline": {
			record:      func() v1alpha1.KillRecord { return inHook(cutRecord(10*time.Second, v1alpha1.KillPhasePreStop, 30)) },
			hookSeconds: 500, wantHooks: 1, wantStops: []stopCall{{"app", 20, 2}}, wantOutcome: v1alpha1.KillOutcomeGraceful,
			wantPreStop: v1alpha1.PreStopTimedOut,
		},
		"a hook whose time is over does not": {
			record:    func() v1alpha1.KillRecord { return inHook(cutRecord(40*time.Second, v1alpha1.KillPhasePreStop, 30)) },
			wantStops: []stopCall{{"app", 0, 2}}, wantOutcome: v1alpha1.KillOutcomeGraceful,
			wantPreStop: v1alpha1.PreStopTimedOut,
		},
		"nor does one that had ended": {
			record: func() v1alpha1.KillRecord {
				return afterHook(cutRecord(10*time.Second, v1alpha1.KillPhaseWaitingForTurn, 30))
			},
			wantStops: []stopCall{{"app", 0, 20}}, wantOutcome: v1alpha1.KillOutcomeGraceful,
			wantPreStop: v1alpha1.PreStopSucceeded,
		},
		"a StopContainer goes on with what is left": {
			record: func() v1alpha1.KillRecord {
				return stopping(afterHook(cutRecord(10*time.Second, v1alpha1.KillPhaseStopping, 30)), 8*time.Second, 28)
			},
			edit: ignoresTerm, wantStops: []stopCall{{"app", 0, 20}}, wantOutcome: v1alpha1.KillOutcomeForced,
		},
		"with two seconds at least": {
			record: func() v1alpha1.KillRecord {
				return stopping(cutRecord(60*time.Second, v1alpha1.KillPhaseStopping, 30), 60*time.Second, 30)
			},
			wantStops: []stopCall{{"app", 0, 2}}, wantOutcome: v1alpha1.KillOutcomeGraceful,
		},
		"a container that left meanwhile is not touched": {
			record: func() v1alpha1.KillRecord {
				return stopping(cutRecord(60*time.Second, v1alpha1.KillPhaseStopping, 30), 60*time.Second, 30)
			},
			edit: func(c *fakeContainer) {
				c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, 137, time.Now().Add(-30*time.Second)
			},
			wantOutcome: v1alpha1.KillOutcomeForced,
		},
		"a kill that had ended is left alone": {
			record: func() v1alpha1.KillRecord { return cutRecord(60*time.Second, v1alpha1.KillPhaseDone, 30) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, whole := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					f := newFakeRuntime()
					f.hooks = map[string]hookScript{"prestop/app": {Seconds: tc.hookSeconds}}
					rec := tc.record()
					f.running("app", tc.edit)
					e := newFakeExecutor(f)
					pod := testPod(30, withPreStopExec)
					if rec.Phase == v1alpha1.KillPhaseDone && whole {
						return // KillPod kills it anew
					}
					if err := resumeBy(t, e, f, pod, rec, whole); err != nil {
						t.Fatal(err)
					}
					if diff := gocmp.Diff(tc.wantStops, f.stopCalls()); diff != "" {
						t.Errorf("StopContainer (-want +got):\n%s", diff)
					}
					if got := len(f.ops("ExecSync")); got != tc.wantHooks {
						t.Errorf("the hook ran %d times, want %d", got, tc.wantHooks)
					}
					checkResumed(t, f, tc.wantOutcome)
					if tc.wantPreStop != "" && f.lastRecords()[0].PreStop.Outcome != tc.wantPreStop {
						t.Errorf("preStop %+v, want %s", f.lastRecords()[0].PreStop, tc.wantPreStop)
					}
				})
			}
		})
	}
}

// resumeBy goes on with a kill, alone or as part of a pod kill.
func resumeBy(t *testing.T, e *Executor, f *fakeRuntime, pod *corev1.Pod, rec v1alpha1.KillRecord, whole bool) error {
	t.Helper()
	if !whole {
		return e.Resume(t.Context(), pod, []v1alpha1.KillRecord{rec})
	}
	_, err := e.KillPod(t.Context(), pod, f.observed(), KillPodOptions{
		Trigger: v1alpha1.TriggerTermination, Override: new(int64(30)), Resume: []v1alpha1.KillRecord{rec},
	})
	return err
}

func checkResumed(t *testing.T, f *fakeRuntime, want v1alpha1.KillOutcome) {
	t.Helper()
	records := f.lastRecords()
	if want == "" {
		if len(records) > 0 {
			t.Errorf("records were written: %+v", records)
		}
		return
	}
	if len(records) != 1 || records[0].ID != "k1" || records[0].Phase != v1alpha1.KillPhaseDone || records[0].Outcome != want {
		t.Errorf("records: %+v, want one, %s", records, want)
	}
	for _, e := range f.ops("Event") {
		if e.str("reason") == "Killing" {
			t.Error("the event Killing was written again")
		}
	}
}

func TestResumeTakesAShorterOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", ignoresTerm)
		rec := stopping(cutRecord(10*time.Second, v1alpha1.KillPhaseStopping, 60), 10*time.Second, 60)
		e := newFakeExecutor(f)
		_, err := e.KillPod(t.Context(), testPod(60, nil), f.observed(), KillPodOptions{
			Trigger: v1alpha1.TriggerTermination, Override: new(int64(5)), Resume: []v1alpha1.KillRecord{rec},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]stopCall{{"app", 0, 5}}, f.stopCalls()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestResumeOfAKillThatHadNoHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", nil)
		e := newFakeExecutor(f)
		rec := stopping(cutRecord(10*time.Second, v1alpha1.KillPhaseStopping, 60), 10*time.Second, 60)
		// The template has got a hook since.
		if err := e.Resume(t.Context(), testPod(60, withPreStopExec), []v1alpha1.KillRecord{rec}); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]stopCall{{"app", 0, 50}}, f.stopCalls()); diff != "" || len(f.ops("ExecSync")) > 0 {
			t.Errorf("hooks %v, stops %s", f.ops("ExecSync"), diff)
		}
	})
}

func TestEndlessGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.hooks = map[string]hookScript{"prestop/app": {Seconds: 1}}
		f.running("app", func(c *fakeContainer) { c.stopSeconds = 3 })
		e := newFakeExecutor(f)
		opts := KillOptions{Trigger: v1alpha1.TriggerTermination}
		if err := e.KillContainer(t.Context(), testPod(math.MaxInt64, withPreStopExec), "app-id", "app", opts); err != nil {
			t.Fatal(err)
		}
		if got := f.lastRecords()[0]; got.Outcome != v1alpha1.KillOutcomeGraceful || *got.StopTimeoutSeconds != math.MaxInt64-1 {
			t.Errorf("record %+v", got)
		}
	})
}
