// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestOutcome(t *testing.T) {
	tests := map[string]struct {
		edit        func(c *fakeContainer)
		wantOutcome v1alpha1.KillOutcome
		wantExit    int32
		wantErr     bool
	}{
		"leaves within its time": {
			edit:        func(c *fakeContainer) { c.stopSeconds, c.stopExitCode = 3, 143 },
			wantOutcome: v1alpha1.KillOutcomeGraceful, wantExit: 143,
		},
		"ignores SIGTERM": {
			edit: ignoresTerm, wantOutcome: v1alpha1.KillOutcomeForced, wantExit: 137,
		},
		"exits with 137 by itself": {
			edit:        func(c *fakeContainer) { c.stopSeconds, c.stopExitCode = 3, 137 },
			wantOutcome: v1alpha1.KillOutcomeGraceful, wantExit: 137,
		},
		"is killed by the OOM killer when its time is over": {
			edit:        func(c *fakeContainer) { c.ignoresTerm, c.oomKilled = true, true },
			wantOutcome: v1alpha1.KillOutcomeGraceful, wantExit: 137,
		},
		"ends after its time but not by SIGKILL": {
			edit: func(c *fakeContainer) {
				c.ignoresTerm, c.sameExitCode, c.stopExitCode = true, true, 255
			},
			wantOutcome: v1alpha1.KillOutcomeGraceful, wantExit: 255,
		},
		"had left before": {
			edit: func(c *fakeContainer) {
				c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, 137, time.Now().Add(-time.Second)
			},
			wantOutcome: v1alpha1.KillOutcomeAlreadyStopped, wantExit: 137,
		},
		"cannot be stopped": {
			edit:        func(c *fakeContainer) { c.stopError = "Unknown" },
			wantOutcome: v1alpha1.KillOutcomeFailed, wantErr: true,
		},
		"runs on though the runtime says it does not": {
			edit:        func(c *fakeContainer) { c.stopError = "NotFound" },
			wantOutcome: v1alpha1.KillOutcomeFailed,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", tc.edit)
				e := newFakeExecutor(f)
				err := e.KillContainer(t.Context(), testPod(10, nil), "app-id", "app", KillOptions{Trigger: v1alpha1.TriggerLivenessProbe})
				if (err != nil) != tc.wantErr {
					t.Errorf("error %v", err)
				}
				rec := f.lastRecords()[0]
				if rec.Outcome != tc.wantOutcome {
					t.Errorf("outcome %s, want %s", rec.Outcome, tc.wantOutcome)
				}
				if tc.wantOutcome == v1alpha1.KillOutcomeFailed {
					if rec.Error == "" || rec.ExitCode != nil {
						t.Errorf("record of a failed kill: %+v", rec)
					}
					return
				}
				if rec.ExitCode == nil || *rec.ExitCode != tc.wantExit {
					t.Errorf("exit code %v, want %d", rec.ExitCode, tc.wantExit)
				}
			})
		})
	}
}

func TestOutcomeOfAContainerThatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		in   ending
		want v1alpha1.KillOutcome
	}{
		"gone before":    {ending{gone: true, wasGone: true}, v1alpha1.KillOutcomeAlreadyStopped},
		"gone meanwhile": {ending{gone: true}, v1alpha1.KillOutcomeGraceful},
		"not known":      {ending{}, v1alpha1.KillOutcomeGraceful},
		"still unknown": {ending{known: true, after: &plan.ContainerStatus{State: plan.ContainerUnknown}},
			v1alpha1.KillOutcomeGraceful},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(tc.in); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
