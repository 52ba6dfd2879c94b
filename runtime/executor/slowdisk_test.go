// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// slowDisk keeps each kill for 2 s at its first record, as a disk that hangs does.
type slowDisk struct {
	*fakeRuntime
	asked int
}

func (s *slowDisk) Kill(uid types.UID, kill plan.KillProgress) {
	if s.asked++; s.asked == 1 {
		time.Sleep(2 * time.Second)
	}
	s.fakeRuntime.Kill(uid, kill)
}

// What a slow disk takes before a hook, a stop or the wait for other containers is not taken from the grace period either
// when the shim dies during the kill and the next process continues it.
func TestWaitForTheDiskIsOutsideTheGraceOfTheNextProcess(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Pod){"stop": nil, "hook": withPreStopExec, "wait": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 7200}}
				f.running("app", ignoresTerm)
				pod := testPod(30, edit)
				now, _ := settableClock("boot")
				e := newFakeExecutor(f)
				e.clock, e.kills = now, &slowDisk{fakeRuntime: f}
				began := now.SinceBoot()
				done := make(chan error)
				k := e.newKill(pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
				if name == "wait" {
					k.WaitsFor = []string{"other"} // which does not end
					k.turns, _ = e.takeTurns(pod.UID, []plan.Kill{k.Kill, {Name: "other"}})
				}
				go func() { done <- k.carryOut(t.Context()) }()
				time.Sleep(7 * time.Second)
				e.Interrupt()
				if err := <-done; !errors.Is(err, ErrInterrupted) {
					t.Fatal(err)
				}
				f.mu.Lock()
				open := f.progress[len(f.progress)-1]
				f.mu.Unlock()
				left := open.Left(plan.Moment{Wall: now.Now(), SinceBoot: now.SinceBoot(), BootID: "boot"})
				if want := int64(30 + 2 - (now.SinceBoot()-began)/time.Second); left != want {
					t.Errorf("%d s are left after %s, want %d: the 2 s of the disk are taken from the grace period", left, now.SinceBoot()-began, want)
				}
			})
		})
	}
}
