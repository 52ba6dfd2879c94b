// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWaits(t *testing.T) {
	early, now := time.Unix(1000, 0), time.Unix(2000, 0)
	known := Waits{WaitPaused: {Since: early}, WaitBudget: {Since: early}}
	budget := map[Reason]int{WaitBudget: 4}
	tests := map[string]struct {
		before Waits
		began  bool
		want   Waits
	}{
		"it lasts, and another is over": {known, true, Waits{WaitBudget: {Since: early}}},
		"it is new":                     {Waits{}, true, Waits{WaitBudget: {Since: now}}},
		"a new roll-out":                {nil, false, Waits{WaitBudget: {Since: now}}},
		"a new manager":                 {nil, true, Waits{WaitBudget: {Since: now, Before: true}}},
		"the same one later":            {Waits{WaitBudget: {Since: early, Before: true}}, true, Waits{WaitBudget: {Since: early, Before: true}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.before.Next(budget, tc.began, now)); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
	for want, w := range map[string]Wait{"": {}, "since 1970-01-01T00:16:40Z": {Since: early}, "since before 1970-01-01T00:16:40Z": {Since: early, Before: true}} {
		if got := w.String(); got != want {
			t.Errorf("%+v is %q, want %q", w, got, want)
		}
	}
}
