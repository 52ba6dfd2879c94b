// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// fakeFreezer has one container, which SIGKILL does not end before it is thawed unless the
// runtime thaws it.
type fakeFreezer struct {
	mu      sync.Mutex
	paused  bool
	hangs   bool
	err     error
	thawed  chan struct{}
	thawing []time.Time
}

func (f *fakeFreezer) Paused(ctx context.Context, _ types.UID, _ string) bool {
	f.mu.Lock()
	paused, hangs := f.paused, f.hangs
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return false
	}
	return paused
}

func (f *fakeFreezer) Thaw(context.Context, types.UID, string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawing = append(f.thawing, time.Now())
	if f.err == nil {
		f.paused = false
		close(f.thawed)
	}
	return f.err == nil, f.err
}

func (f *fakeFreezer) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.thawing)
}

// slowRuntime ends StopContainer only when its container was thawed.
type slowRuntime struct {
	*fakeRuntime
	thawed chan struct{}
}

func (r slowRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	err := r.fakeRuntime.StopContainer(ctx, id, timeout)
	select {
	case <-r.thawed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r slowRuntime) ContainerStatus(ctx context.Context, id string) (plan.ContainerStatus, error) {
	s, err := r.fakeRuntime.ContainerStatus(ctx, id)
	select {
	case <-r.thawed:
	default:
		s.State, s.ExitCode, s.FinishedAt = plan.ContainerRunning, 0, time.Time{}
	}
	return s, err
}

func killPaused(t *testing.T, freezer *fakeFreezer, slow bool) (rec v1alpha1.KillRecord, took time.Duration, err error) {
	t.Helper()
	f := newFakeRuntime()
	f.running("app", ignoresTerm)
	e := newFakeExecutor(f)
	if freezer != nil {
		e.freezer = freezer
	}
	if slow {
		e.runtime = slowRuntime{f, freezer.thawed}
	}
	begun := time.Now()
	err = e.KillContainer(t.Context(), testPod(10, nil), killApp(testPod(10, nil), f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
	return f.lastRecords()[0], time.Since(begun), err
}

// The record says that the container was paused, and the kill takes its time and no more. A
// question that hangs holds nothing up.
func TestRecordOfAPausedContainer(t *testing.T) {
	for name, tc := range map[string]struct {
		freezer *fakeFreezer
		want    bool
	}{
		"paused":           {&fakeFreezer{paused: true}, true},
		"not paused":       {&fakeFreezer{}, false},
		"not known":        {nil, false},
		"the answer hangs": {&fakeFreezer{hangs: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, took, err := killPaused(t, tc.freezer, false)
				if err != nil || rec.Paused != tc.want || rec.Outcome != v1alpha1.KillOutcomeForced || took != 10*time.Second {
					t.Errorf("record %+v after %s, %v", rec, took, err)
				}
				if tc.freezer != nil && len(tc.freezer.times()) != 0 {
					t.Error("a container was thawed that the runtime had ended")
				}
			})
		})
	}
}

// A container that stays paused after the runtime's SIGKILL is thawed, so that the kill ends;
// not before, and not again.
func TestPausedContainerIsThawedAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freezer := &fakeFreezer{paused: true, thawed: make(chan struct{})}
		begun := time.Now()
		rec, took, err := killPaused(t, freezer, true)
		if err != nil || !rec.Paused || rec.Outcome != v1alpha1.KillOutcomeForced || took != 12*time.Second {
			t.Errorf("record %+v after %s, %v", rec, took, err)
		}
		if times := freezer.times(); len(times) != 1 || times[0].Sub(begun) != 12*time.Second {
			t.Errorf("thawed at %v, want once, 2 s after the grace period of 10 s", times)
		}
	})
}

// A runtime that takes its time with a container that runs is waited for.
func TestRunningContainerIsNotThawed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freezer := &fakeFreezer{thawed: make(chan struct{})}
		time.AfterFunc(20*time.Second, func() { close(freezer.thawed) })
		rec, took, err := killPaused(t, freezer, true)
		if err != nil || rec.Paused || took != 20*time.Second || len(freezer.times()) != 0 {
			t.Errorf("record %+v after %s, thawed at %v, %v", rec, took, freezer.times(), err)
		}
	})
}

// Where it cannot be thawed, the kill has failed as any that the runtime does not carry out.
func TestPausedContainerThatCannotBeThawed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freezer := &fakeFreezer{paused: true, thawed: make(chan struct{}), err: errors.New("read-only file system")}
		rec, _, err := killPaused(t, freezer, true)
		if err == nil || !rec.Paused || rec.Outcome != v1alpha1.KillOutcomeFailed {
			t.Errorf("record %+v, %v", rec, err)
		}
	})
}
