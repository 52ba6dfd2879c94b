// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A kill that is cut off before its request can have reached the container costs
// the container nothing of its 30 s, however long no process runs; one that has
// reached it continues by its deadline.
func TestKillCutOffBeforeTheContainerKnew(t *testing.T) {
	const outage = 10 * time.Second
	tests := map[string]struct {
		edit     func(pod *corev1.Pod)
		cut      time.Duration
		bootID   string
		want     int64
		wantTook time.Duration // from the resumption to the end of the kill
	}{
		"before the stop":            {cut: 100 * time.Millisecond, want: 30, wantTook: 30 * time.Second},
		"after the stop":             {cut: 5 * time.Second, want: 15, wantTook: 15 * time.Second},
		"before the stop, boot lost": {cut: 100 * time.Millisecond, bootID: "second", want: 2, wantTook: 2 * time.Second},
		"before the hook":            {edit: withPreStopExec, cut: 100 * time.Millisecond, want: 2, wantTook: 32 * time.Second},
		"in the hook":                {edit: withPreStopExec, cut: 5 * time.Second, want: 2, wantTook: 17 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 7200}}
				f.running("app", ignoresTerm)
				pod := testPod(30, tt.edit)
				now, _ := settableClock("first")
				open := cutKill(t, f, now, pod, tt.cut)
				time.Sleep(outage)
				f.Containers[0].State = plan.ContainerRunning
				before := len(f.stopCalls())
				if tt.bootID != "" {
					now = clock.New(clock.Config{BootID: tt.bootID})
				}
				e := newFakeExecutor(f)
				e.clock = now
				resumed := time.Now()
				if err := e.Resume(t.Context(), pod, []plan.KillProgress{open}); err != nil {
					t.Fatal(err)
				}
				calls := f.stopCalls()[before:]
				if len(calls) != 1 || int64(calls[0].Timeout) != tt.want {
					t.Errorf("StopContainer %+v, want once with %d s", calls, tt.want)
				}
				if took := time.Since(resumed).Truncate(time.Second); took != tt.wantTook {
					t.Errorf("the kill ended %s after it was resumed, want %s", took, tt.wantTook)
				}
			})
		})
	}
}

// A kill that is cut off again, at once after it was resumed, has what it had then.
func TestKillCutOffAgainHasNoMoreThanBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", ignoresTerm)
		pod := testPod(30, nil)
		now, _ := settableClock("boot")
		open := cutKill(t, f, now, pod, 20*time.Second)
		f.Containers[0].State = plan.ContainerRunning
		second := newFakeExecutor(f)
		second.clock = now
		done := make(chan error)
		go func() { done <- second.Resume(t.Context(), pod, []plan.KillProgress{open}) }()
		time.Sleep(100 * time.Millisecond)
		second.Interrupt()
		if err := <-done; !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		f.mu.Lock()
		open = f.progress[len(f.progress)-1]
		f.mu.Unlock()
		time.Sleep(5 * time.Second)
		f.Containers[0].State = plan.ContainerRunning
		before := len(f.stopCalls())
		third := newFakeExecutor(f)
		third.clock = now
		if err := third.Resume(t.Context(), pod, []plan.KillProgress{open}); err != nil {
			t.Fatal(err)
		}
		if calls := f.stopCalls()[before:]; len(calls) != 1 || calls[0].Timeout != 10 {
			t.Errorf("StopContainer %+v, want once with 10 s", calls)
		}
	})
}
