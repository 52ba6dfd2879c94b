// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// What a KillRequest waits for takes as long as the request says, however the wall clock is set
// meanwhile, and no longer where the shim has lost what it knew.
func TestRequestWaitsByTheTimeSinceBoot(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	unready := func(s *story) bool { return s.out.Asked["a"].Trigger != "" }
	started := func(s *story) bool { return s.out.Status[0].Phase == v1alpha1.RequestSucceeded }
	tests := map[string]struct {
		set   time.Duration
		loses bool
		// wantUnready and wantStarted are seconds from the begin, and from the start.
		wantUnready, wantStarted int
	}{
		"the clock is right":                   {wantUnready: 11, wantStarted: 10},
		"set back":                             {set: -day, wantUnready: 11, wantStarted: 10},
		"set forward":                          {set: day, wantUnready: 11, wantStarted: 10},
		"a shim that knows nothing":            {loses: true, wantUnready: 11, wantStarted: 10},
		"set back, and a shim that knows less": {set: -day, loses: true, wantUnready: 17, wantStarted: 16},
	}
	// count looks once a second, and has the clock set after five.
	count := func(s *story, set time.Duration, loses bool, done func(*story) bool) int {
		for i := range 100 {
			if done(s) {
				return i
			}
			if i == 5 {
				s.now, s.set = s.now.Add(set), s.set+set
				if loses {
					s.out.Times = nil
				}
			}
			s.now = s.now.Add(time.Second)
			s.look()
		}
		return -1
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := requestRestart("a")
			r.UnreadySeconds = 10
			if got := count(newStory(r).look(), tc.set, tc.loses, unready); got != tc.wantUnready {
				t.Errorf("killed after %d s, want %d", got, tc.wantUnready)
			}
			r = requestRestart("a")
			r.MinStartedSeconds = 10
			s := newStory(r).look().becomes("a", "a-2", plan.ContainerRunning).look()
			if got := count(s, tc.set, tc.loses, started); got != tc.wantStarted {
				t.Errorf("done %d s after the start, want %d", got, tc.wantStarted)
			}
		})
	}
}

// The clock is set between the start of the new instance and the first look at it.
func TestStartByAClockThatWasSet(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]time.Duration{"back": -24 * time.Hour, "forward": 24 * time.Hour} {
		r := requestRestart("a")
		r.MinStartedSeconds = 10
		s := newStory(r).look().becomes("a", "a-2", plan.ContainerRunning)
		s.now, s.set = s.now.Add(set), set
		for i := range 10 {
			if s.look(); s.out.Status[0].Phase != v1alpha1.RequestInProgress {
				t.Errorf("set %s: %s after %d s, want it to run for 10", name, s.out.Status[0].Phase, i)
			}
			s.now = s.now.Add(time.Second)
		}
		s.look().want(t, "Succeeded a=Succeeded")
	}
}
