// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"testing"
	"testing/synctest"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A container whose kill failed before its grace period was over is not killed by
// force with its sandbox; the kubelet does that. One that had its time is.
func TestSandboxStaysWhileAKillFails(t *testing.T) {
	tests := map[string]struct {
		differences plan.Differences
		edit        func(*fakeContainer)
		wantStops   int // of the sandbox
	}{
		"the runtime refuses at once": {
			plan.AllDifferences(), func(c *fakeContainer) { c.StopError = "Unavailable" }, 0,
		},
		"as the kubelet": {
			plan.Differences{}, func(c *fakeContainer) { c.StopError = "Unavailable" }, 1,
		},
		"the runtime fails when the time is over": {
			plan.AllDifferences(), func(c *fakeContainer) { c.StopError, c.IgnoresTerm = "Unavailable", true }, 1,
		},
		"the container leaves": {plan.AllDifferences(), func(*fakeContainer) {}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", tt.edit)
				f.SandboxKills = true
				f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
				e, request := newExecutorWith(f, tt.differences), plan.KillRequest{
					Pod: testPod(30, nil), Observed: f.observed(), Trigger: v1alpha1.TriggerTermination,
				}
				_, err := e.KillPod(t.Context(), request)
				if failed := f.Containers[0].StopError != ""; (err != nil) != failed {
					t.Errorf("error %v", err)
				}
				if n := len(f.ops("StopPodSandbox")); n != tt.wantStops {
					t.Fatalf("the sandbox was stopped %d times, want %d", n, tt.wantStops)
				}
				if tt.wantStops > 0 {
					return
				}
				f.Containers[0].StopError = ""
				request.Observed = f.observed()
				if _, err := e.KillPod(t.Context(), request); err != nil || len(f.ops("StopPodSandbox")) != 1 {
					t.Errorf("once the runtime answers: %v, %d stops of the sandbox", err, len(f.ops("StopPodSandbox")))
				}
			})
		})
	}
}
