// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/runtime/clock"
)

func TestNilClockFollowsTestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *clock.Clock
		now, boot := c.Now(), c.SinceBoot()
		time.Sleep(time.Hour)
		if got := c.Now().Sub(now); got != time.Hour {
			t.Errorf("the wall clock advanced by %s, want 1h", got)
		}
		if got := c.SinceBoot() - boot; got != time.Hour {
			t.Errorf("the time since boot advanced by %s, want 1h", got)
		}
		if c.BootID() != "" {
			t.Errorf("BootID = %q, want none", c.BootID())
		}
	})
}

// A wall clock that is set moves Now, and nothing else.
func TestOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset time.Duration
		c := clock.New(clock.Config{BootID: "b", Offset: func() time.Duration { return offset }})
		now, boot := c.Now(), c.SinceBoot()
		offset = -time.Hour
		time.Sleep(time.Minute)
		if got, want := c.Now().Sub(now), time.Minute-time.Hour; got != want {
			t.Errorf("the wall clock moved by %s, want %s", got, want)
		}
		if got := c.SinceBoot() - boot; got != time.Minute {
			t.Errorf("the time since boot moved by %s, want 1m", got)
		}
	})
}

func TestSystem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offset")
	t.Setenv(clock.OffsetFileVariable, file)
	c := clock.System("boot")
	if c.BootID() != "boot" {
		t.Errorf("BootID = %q, want boot", c.BootID())
	}
	if first, second := c.SinceBoot(), c.SinceBoot(); first <= 0 || second < first {
		t.Errorf("time since boot: %s, then %s", first, second)
	}
	for text, want := range map[string]time.Duration{"": 0, "-2h\n": -2 * time.Hour, "nonsense": 0, "1h30m": 90 * time.Minute} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(c.Now()).Round(time.Minute); got != want {
			t.Errorf("offset %q: the clock is ahead by %s, want %s", text, got, want)
		}
	}
}
