// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// panicking is a runtime with a bug that shows so many times.
type panicking struct {
	*fakeRuntime
	inStop, inHook, inStatus atomic.Int32 // kills run at once
}

func (p *panicking) ContainerStatus(ctx context.Context, id string) (plan.ContainerStatus, error) {
	if p.inStatus.Add(-1) >= 0 {
		panic("a bug in a status")
	}
	return p.fakeRuntime.ContainerStatus(ctx, id)
}

func (p *panicking) StopContainer(ctx context.Context, id string, timeout int64) error {
	if p.inStop.Add(-1) >= 0 {
		panic("a bug in a kill")
	}
	return p.fakeRuntime.StopContainer(ctx, id, timeout)
}

func (p *panicking) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, int32, error) {
	if p.inHook.Add(-1) >= 0 {
		panic("a bug in a hook")
	}
	return p.fakeRuntime.ExecSync(ctx, id, cmd, timeout)
}

func newPanickingExecutor(f *fakeRuntime, inStop, inHook int) *Executor {
	e := newFakeExecutor(f)
	runtime := &panicking{fakeRuntime: f}
	runtime.inStop.Store(int32(inStop))
	runtime.inHook.Store(int32(inHook))
	e.runtime = runtime
	e.hooks = &handlers{runtime: e.runtime, events: f, http: f}
	return e
}

// A panic in one kill of a pod is its error; the other containers are killed, and
// the next try kills this one too.
func TestPanicInAKillIsContained(t *testing.T) {
	for name, counts := range map[string][2]int{"in StopContainer": {1, 0}, "in the hook": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", nil)
				f.running("other", nil)
				pod := testPod(30, withPreStopExec)
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "other", Image: "img:1"})
				e := newPanickingExecutor(f, counts[0], counts[1])
				kill := plan.KillRequest{Pod: pod, Trigger: v1alpha1.TriggerTermination}
				kill.Observed = f.observed()
				if _, err := e.KillPod(t.Context(), kill); err == nil || !strings.Contains(err.Error(), "panic in ") {
					t.Fatalf("error %v, want that of the panic", err)
				}
				if running := runningCount(f.observed()); running != 1 {
					t.Fatalf("%d containers run, want only the one whose kill panicked", running)
				}
				kill.Observed = f.observed()
				if _, err := e.KillPod(t.Context(), kill); err != nil {
					t.Fatal(err)
				}
				if running := runningCount(f.observed()); running != 0 {
					t.Errorf("%d containers run", running)
				}
				for _, rec := range f.lastRecords() {
					if rec.Phase != v1alpha1.KillPhaseDone {
						t.Errorf("a record stays open: %+v", rec)
					}
				}
			})
		})
	}
}

// A kill that was cut off and panics whenever it is continued is set aside, and
// said so; the container is killed by what its own labels say.
func TestRecordThatPanicsTwiceIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", nil).Recorded.TerminationGracePeriodSeconds = new(int64(7))
		e := newPanickingExecutor(f, 0, 2)
		pod := testPod(30, withPreStopExec)
		open := plan.KillProgress{Record: inHook(cutRecord(time.Second, v1alpha1.KillPhasePreStop, 30))}
		for range 2 {
			if err := e.Resume(t.Context(), pod, []plan.KillProgress{open}); err == nil {
				t.Fatal("the panic is no error")
			}
			open = f.progress[len(f.progress)-1]
		}
		if open.Note.Panics != 2 {
			t.Fatalf("%d panics noted, want 2", open.Note.Panics)
		}
		// In a later process, which knows no more than what was kept.
		e = newPanickingExecutor(f, 0, 0)
		if err := e.Resume(t.Context(), pod, []plan.KillProgress{open}); err != nil {
			t.Fatal(err)
		}
		if calls := f.stopCalls(); len(calls) != 1 || calls[0].Timeout != 7 {
			t.Errorf("StopContainer %+v, want once with the recorded 7 s", calls)
		}
		var aside []v1alpha1.KillRecord
		for _, rec := range f.lastRecords() {
			if rec.ID == open.Record.ID {
				aside = append(aside, rec)
			}
		}
		events := f.ops("Event")
		said := slices.ContainsFunc(events, func(e entry) bool {
			return e.Text("reason") == "KillRecordSetAside" &&
				e.Text("message") == "Container app: continuing this kill panicked 2 times; its record was set aside"
		})
		if !said {
			t.Errorf("events %v", events)
		}
		if len(aside) != 1 || aside[0].Outcome != v1alpha1.KillOutcomeFailed || aside[0].Error != "continuing this kill panicked 2 times" {
			t.Errorf("record %+v", aside)
		}
	})
}

// A record at which the executor panics before it comes to a kill is set aside after two
// panics; one whose container has left, or that is closed with the whole pod, at once.
func TestRecordThatPanicsBeforeItsKill(t *testing.T) {
	for name, tt := range map[string]struct {
		state     plan.ContainerState
		whole     bool
		wantTries int
	}{
		"it may run":     {plan.ContainerRunning, false, 2},
		"the pod's kill": {plan.ContainerExited, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", nil).State = tt.state
				e := newFakeExecutor(f)
				runtime := &panicking{fakeRuntime: f}
				runtime.inStatus.Store(1 << 30)
				e.runtime = runtime
				open := plan.KillProgress{Record: cutRecord(time.Second, v1alpha1.KillPhaseStopping, 30)}
				for try := 1; open.Record.Phase != v1alpha1.KillPhaseDone; try++ {
					if try > tt.wantTries {
						t.Fatalf("open after %d tries", tt.wantTries)
					}
					if err := resumeOpen(t, e, f.observed(), testPod(30, nil), open, tt.whole); (err == nil) != tt.whole {
						t.Errorf("try %d: error %v", try, err)
					}
					open = f.progress[len(f.progress)-1]
				}
				if open.Record.Outcome != v1alpha1.KillOutcomeFailed || !strings.Contains(open.Record.Error, "panic") {
					t.Errorf("record %+v", open.Record)
				}
			})
		})
	}
}

// A hook that panics whenever it runs does not keep its container alive.
func TestHookThatAlwaysPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", recorded)
		e := newPanickingExecutor(f, 0, 1<<30)
		for try := 1; runningCount(f.observed()) > 0; try++ {
			if try > 4 {
				t.Fatal("the container runs after 4 tries")
			}
			_, _ = e.KillPod(t.Context(), plan.KillRequest{
				Pod: testPod(30, withPreStopExec), Observed: f.observed(), Trigger: v1alpha1.TriggerTermination,
			})
		}
	})
}
