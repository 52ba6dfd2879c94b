// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A shortening never adds time, and without time a kill waits for no other container.
func TestLeft(t *testing.T) {
	for _, tt := range []struct{ left, limit, want int64 }{{30, 10, 10}, {5, 10, 5}, {5, -1, -1}} {
		if got := plan.Left(tt.left, tt.limit); got != tt.want {
			t.Errorf("Left(%d, %d) = %d, want %d", tt.left, tt.limit, got, tt.want)
		}
	}
	k := plan.Kill{WaitsFor: []string{"main"}}
	for left, want := range map[int64]int{2: 1, 1: 1, 0: 0, -1: 0} {
		if got := k.WaitsWithin(left); len(got) != want {
			t.Errorf("with %d s left it waits for %q", left, got)
		}
	}
}

// A hook that was cut off runs again only if the kill had not left it behind and there
// is time for it.
func TestHookOver(t *testing.T) {
	const hook, waiting = v1alpha1.KillPhasePreStop, v1alpha1.KillPhaseWaitingForTurn
	cut, succeeded := &v1alpha1.KillPreStop{}, &v1alpha1.KillPreStop{Outcome: v1alpha1.PreStopSucceeded}
	tests := map[string]struct {
		phase v1alpha1.KillPhase
		hook  *v1alpha1.KillPreStop
		left  int64
		want  bool
	}{
		"during the hook":       {hook, cut, 5, false},
		"without time":          {hook, cut, 0, true},
		"after the hook":        {waiting, cut, 5, true},
		"the hook has ended":    {waiting, succeeded, 5, false},
		"the kill has no hook":  {waiting, nil, 0, false},
		"time over, hook ended": {hook, succeeded, 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := plan.KillProgress{Record: v1alpha1.KillRecord{Phase: tt.phase, PreStop: tt.hook, Grace: v1alpha1.KillGrace{Seconds: 30}}}
			if got := p.HookOver(tt.left); got != tt.want {
				t.Errorf("HookOver(%d) = %t, want %t", tt.left, got, tt.want)
			}
			if got := p.Spent(tt.left); got != 30-tt.left {
				t.Errorf("Spent(%d) = %d", tt.left, got)
			}
		})
	}
}
