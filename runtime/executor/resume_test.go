// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"errors"
	"math"
	"strings"
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
		"a StopContainer continues with what is left": {
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
				c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, 143, time.Now().Add(-40*time.Second)
			},
			wantOutcome: v1alpha1.KillOutcomeGraceful,
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
					f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: tc.hookSeconds}}
					rec := tc.record()
					f.running("app", tc.edit)
					e := newFakeExecutor(f)
					pod := testPod(30, withPreStopExec)
					if rec.Phase == v1alpha1.KillPhaseDone && whole {
						return // KillPod kills it again
					}
					if err := resumeBy(t, e, f.observed(), pod, rec, whole); err != nil {
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

// resumeBy continues a kill, alone or as part of a pod kill.
func resumeBy(t *testing.T, e *Executor, observed *plan.PodStatus, pod *corev1.Pod, rec v1alpha1.KillRecord, whole bool) error {
	t.Helper()
	return resumeOpen(t, e, observed, pod, plan.KillProgress{Record: rec}, whole)
}

func resumeOpen(t *testing.T, e *Executor, observed *plan.PodStatus, pod *corev1.Pod, open plan.KillProgress, whole bool) error {
	t.Helper()
	if !whole {
		return e.Resume(t.Context(), pod, []plan.KillProgress{open})
	}
	_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: pod, Observed: observed,
		Trigger: v1alpha1.TriggerTermination, Override: override(new(int64(30))), Open: []plan.KillProgress{open},
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
		if e.Text("reason") == "Killing" {
			t.Error("the event Killing was written again")
		}
	}
}

// What happened while no shim was there is reported only as far as it is known: a
// StopContainer ends with the shim that called it, and no SIGKILL follows.
func TestRecordIsClosedByWhenTheContainerLeft(t *testing.T) {
	const age = 100 * time.Second
	tests := map[string]struct {
		record  func(rec v1alpha1.KillRecord) v1alpha1.KillRecord
		code    int32
		after   time.Duration // from the begin of the kill to the exit
		gone    bool
		want    v1alpha1.KillOutcome
		wantErr string
		wantEnd time.Duration // from the begin of the kill
		grace   int64         // 30 by default
	}{
		"in the hook's time, which is not over": {after: 3 * time.Second, grace: 300, want: v1alpha1.KillOutcomeGraceful, wantEnd: 3 * time.Second},
		"before the kill began":                 {after: -time.Second, want: v1alpha1.KillOutcomeAlreadyStopped, wantEnd: 0},
		"before the kill began, in its time":    {after: -time.Second, grace: 300, want: v1alpha1.KillOutcomeAlreadyStopped, wantEnd: 0},
		"in the hook's time":                    {after: 3 * time.Second, want: v1alpha1.KillOutcomeGraceful, wantEnd: 3 * time.Second},
		"long after it, not stopped":            {after: 90 * time.Second, wantErr: leftLate, wantEnd: age},
		"stopped, in time": {
			record: func(rec v1alpha1.KillRecord) v1alpha1.KillRecord { return stopping(rec, age-10*time.Second, 28) },
			code:   137, after: 37 * time.Second, want: v1alpha1.KillOutcomeGraceful, wantEnd: 37 * time.Second,
		},
		"stopped, killed when the time was over": {
			record: func(rec v1alpha1.KillRecord) v1alpha1.KillRecord { return stopping(rec, age-10*time.Second, 28) },
			code:   137, after: 38 * time.Second, wantErr: unseenForce, wantEnd: age,
		},
		"removed": {gone: true, wantErr: "the runtime does not answer about the container: ", wantEnd: age},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, whole := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					f := newFakeRuntime()
					rec := inHook(cutRecord(age, v1alpha1.KillPhasePreStop, cmp.Or(tc.grace, 30)))
					if tc.record != nil {
						rec = tc.record(afterHook(cutRecord(age, v1alpha1.KillPhaseStopping, 30)))
					}
					if !tc.gone {
						f.running("app", func(c *fakeContainer) {
							c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, tc.code, rec.StartTime.Add(tc.after)
						})
					} else if !whole {
						return // not an error that says that it is gone
					}
					if err := resumeBy(t, newFakeExecutor(f), f.observed(), testPod(30, withPreStopExec), rec, whole); err != nil {
						t.Fatal(err)
					}
					got := f.lastRecords()[0]
					if got.Phase != v1alpha1.KillPhaseDone || got.Outcome != tc.want || !strings.HasPrefix(got.Error, tc.wantErr) || (got.Error == "") != (tc.wantErr == "") {
						t.Errorf("phase %s, outcome %q, error %q; want %q, %q", got.Phase, got.Outcome, got.Error, tc.want, tc.wantErr)
					}
					if end := got.FinishTime.Sub(rec.StartTime.Time); end != tc.wantEnd || got.Grace.UsedSeconds != int64(end/time.Second) {
						t.Errorf("ended after %s, %d s used; want %s", end, got.Grace.UsedSeconds, tc.wantEnd)
					}
					if len(f.stopCalls()) > 0 {
						t.Errorf("it was stopped: %v", f.stopCalls())
					}
					wantHook := v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopTimedOut}
					switch {
					case tc.record != nil:
						wantHook = *afterHook(rec).PreStop
					case tc.grace > 0 && tc.want == v1alpha1.KillOutcomeGraceful:
						wantHook.Outcome, wantHook.Seconds = v1alpha1.PreStopFailed, got.Grace.UsedSeconds
					}
					if *got.PreStop != wantHook || got.HookCutOff() != (wantHook.Outcome == v1alpha1.PreStopTimedOut) {
						t.Errorf("hook %+v, want %+v", *got.PreStop, wantHook)
					}
				})
			}
		})
	}
}

// That a container had left when a kill was gone on with does not say that it had
// left when the kill began.
func TestResumedKillOfAContainerThatJustLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		rec := stopping(cutRecord(5*time.Second, v1alpha1.KillPhaseStopping, 30), 5*time.Second, 30)
		c := f.running("app", nil)
		observed := f.observed()
		c.State, c.FinishedAt = plan.ContainerExited, time.Now()
		e := newFakeExecutor(f)
		e.runtime = &mute{f, 1, errorOf("Unavailable")}
		_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: testPod(30, nil), Observed: observed,
			Trigger: v1alpha1.TriggerTermination, Open: []plan.KillProgress{{Record: rec}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.lastRecords()[0]; got.Outcome != "" || got.Error == "" {
			t.Errorf("outcome %q, error %q, want none reported", got.Outcome, got.Error)
		}
	})
}

// A shim that crashes again and again takes none of the container's time.
func TestResumeTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", ignoresTerm)
		began := time.Now()
		rec := stopping(cutRecord(0, v1alpha1.KillPhaseStopping, 30), 0, 30)
		for range 2 {
			time.Sleep(8 * time.Second)
			first := newFakeExecutor(f)
			done := make(chan error)
			go func() { done <- first.Resume(t.Context(), testPod(30, nil), []plan.KillProgress{{Record: rec}}) }()
			time.Sleep(time.Second)
			first.Interrupt()
			if err := <-done; !errors.Is(err, ErrInterrupted) {
				t.Fatal(err)
			}
			rec = f.lastRecords()[0]
		}
		if err := newFakeExecutor(f).Resume(t.Context(), testPod(30, nil), []plan.KillProgress{{Record: rec}}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("killed by force after %s, want 30s", took)
		}
		if diff := gocmp.Diff([]stopCall{{"app", 8, 22}, {"app", 17, 13}, {"app", 18, 12}}, f.stopCalls()); diff != "" {
			t.Error(diff)
		}
		if got := f.lastRecords()[0]; got.Outcome != v1alpha1.KillOutcomeForced || *got.StopTimeoutSeconds != 30 {
			t.Errorf("record %+v", got)
		}
	})
}

func TestResumeTakesAShorterOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", ignoresTerm)
		rec := stopping(cutRecord(10*time.Second, v1alpha1.KillPhaseStopping, 60), 10*time.Second, 60)
		e := newFakeExecutor(f)
		_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: testPod(60, nil), Observed: f.observed(),
			Trigger: v1alpha1.TriggerTermination, Override: override(new(int64(5))), Open: []plan.KillProgress{{Record: rec}},
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
		if err := e.Resume(t.Context(), testPod(60, withPreStopExec), []plan.KillProgress{{Record: rec}}); err != nil {
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
		f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 1}}
		f.running("app", func(c *fakeContainer) { c.StopSeconds = 3 })
		e := newFakeExecutor(f)
		pod := testPod(math.MaxInt64, withPreStopExec)
		if err := e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination})); err != nil {
			t.Fatal(err)
		}
		if got := f.lastRecords()[0]; got.Outcome != v1alpha1.KillOutcomeGraceful || *got.StopTimeoutSeconds != math.MaxInt64-1 {
			t.Errorf("record %+v", got)
		}
	})
}
