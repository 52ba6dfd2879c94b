// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A container that SIGKILL ended while its hook ran was not stopped gracefully, also where its end
// was not seen at once: the runtime's time of the exit counts.
func TestSIGKILLDuringTheHookIsNotGraceful(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		code  int32
		want  v1alpha1.KillOutcome
	}{
		"during the hook":          {3500 * time.Millisecond, 137, v1alpha1.KillOutcomeAlreadyStopped},
		"by its hook":              {3500 * time.Millisecond, 0, v1alpha1.KillOutcomeGraceful},
		"after the signal was out": {6500 * time.Millisecond, 137, v1alpha1.KillOutcomeGraceful},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 5}}
				c := f.running("app", func(c *fakeContainer) { c.StopSeconds = 10 })
				e, pod := newFakeExecutor(f), testPod(30, withPreStopExec)
				time.AfterFunc(tc.after, func() { f.Exit(c, tc.code) })
				if err := e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination})); err != nil {
					t.Fatal(err)
				}
				if got := f.lastRecords()[0]; got.Outcome != tc.want || got.ExitCode == nil || *got.ExitCode != tc.code {
					t.Errorf("outcome %s, exit code %v, want %s, %d", got.Outcome, got.ExitCode, tc.want, tc.code)
				}
			})
		})
	}
}
