// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// settableClock is a node's clock whose wall time a test can set.
func settableClock(bootID string) (c *clock.Clock, set func(by time.Duration)) {
	var offset time.Duration
	c = clock.New(clock.Config{BootID: bootID, Offset: func() time.Duration { return offset }})
	return c, func(by time.Duration) { offset = by }
}

// cutKill begins a kill with 30 s and cuts it off after so many seconds.
func cutKill(t *testing.T, f *fakeRuntime, c *clock.Clock, pod *corev1.Pod, after time.Duration) plan.KillProgress {
	t.Helper()
	e := newFakeExecutor(f)
	e.clock = c
	done := make(chan error)
	go func() {
		done <- e.KillContainer(context.Background(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe}))
	}()
	time.Sleep(after)
	e.Interrupt()
	if err := <-done; !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress[len(f.progress)-1]
}

// However the wall clock is set while no shim runs, a kill that was cut off after
// 10 s of its 30 s has the other 20 s, and no container less than it was given.
func TestResumeCountsOnTheTimeSinceBoot(t *testing.T) {
	tests := map[string]struct {
		bootID string
		set    time.Duration
		edit   func(pod *corev1.Pod)
		want   int64
	}{
		"stopping, as it was":        {want: 20},
		"stopping, set back":         {set: -time.Hour, want: 20},
		"stopping, set forward":      {set: time.Hour, want: 20},
		"in the hook, set back":      {set: -time.Hour, edit: withPreStopExec, want: 2},
		"in the hook, set forward":   {set: time.Hour, edit: withPreStopExec, want: 2},
		"stopping, another boot":     {bootID: "second", want: 2},
		"stopping, boot not known":   {bootID: "-", want: 20},
		"set back, boot not known":   {bootID: "-", set: -time.Hour, want: 30},
		"set back in the second try": {set: -24 * time.Hour, want: 20},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 7200}}
				f.running("app", ignoresTerm)
				pod := testPod(30, tt.edit)
				now, set := settableClock("first")
				open := cutKill(t, f, now, pod, 10*time.Second)
				f.Containers[0].State = plan.ContainerRunning
				before := len(f.stopCalls())

				switch tt.bootID {
				case "-":
					open.Note.BootID = ""
				case "second":
					now = clock.New(clock.Config{BootID: "second"})
				}
				set(tt.set)
				e := newFakeExecutor(f)
				e.clock = now
				if err := e.Resume(t.Context(), pod, []plan.KillProgress{open}); err != nil {
					t.Fatal(err)
				}
				calls := f.stopCalls()[before:]
				if len(calls) != 1 || int64(calls[0].Timeout) != tt.want {
					t.Errorf("StopContainer %+v, want once with %d s", calls, tt.want)
				}
				if took := time.Since(f.start); tt.edit != nil && took > 33*time.Second {
					t.Errorf("a kill with 30 s of grace took %s", took)
				}
			})
		})
	}
}

// The wall clock is set while StopContainer waits: the kill is reported as what
// this process saw.
func TestOutcomeAfterTheClockWasSet(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(c *fakeContainer)
		want v1alpha1.KillOutcome
	}{
		"forced":   {ignoresTerm, v1alpha1.KillOutcomeForced},
		"graceful": {func(c *fakeContainer) { c.StopSeconds = 3 }, v1alpha1.KillOutcomeGraceful},
	} {
		for by, offset := range map[string]time.Duration{"back": time.Hour, "forward": -time.Hour} {
			t.Run(name+", "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFakeRuntime()
					f.running("app", tt.edit)
					e := newFakeExecutor(f)
					// The runtime's exit time is before, or after, what the shim's clock
					// said when the kill began.
					now, set := settableClock("boot")
					e.clock = now
					set(offset)
					pod := testPod(30, nil)
					if err := e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination})); err != nil {
						t.Fatal(err)
					}
					rec := f.lastRecords()[0]
					if rec.Outcome != tt.want {
						t.Errorf("outcome %q, want %q", rec.Outcome, tt.want)
					}
					if took := rec.FinishTime.Sub(rec.StartTime.Time); took < 0 || took > time.Minute || rec.Grace.UsedSeconds > 30 {
						t.Errorf("took %s, used %d s", took, rec.Grace.UsedSeconds)
					}
				})
			})
		}
	}
}

// A shortening says what was asked for, not only what the whole kill comes to.
func TestShorteningRecordsWhatWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", ignoresTerm)
		e := newFakeExecutor(f)
		pod := testPod(60, nil)
		done := make(chan error)
		go func() {
			done <- e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
		}()
		time.Sleep(2 * time.Second)
		e.Shorten(testUID, 12)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		got := f.lastRecords()[0].Grace
		got.Deadline = nil
		want := v1alpha1.KillGrace{
			Seconds: 14, Source: v1alpha1.GraceSourceDeletion, UsedSeconds: 14,
			ShortenedFromSeconds: new(int64(60)), ShortenedToSeconds: new(int64(12)),
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}
