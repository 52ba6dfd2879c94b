// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"
)

// Clock reads the node's clocks. It is safe for concurrent use.
type Clock struct {
	config Config
}

// Config is what a Clock reads.
type Config struct {
	// BootID identifies the boot that SinceBoot counts from; empty if it is not
	// known, and then nothing stored is comparable.
	BootID string
	// SinceBoot returns the time since boot; nil counts from the process's start.
	SinceBoot func() time.Duration
	// Offset is added to the wall clock; nil adds nothing.
	Offset func() time.Duration
}

// New returns a Clock.
func New(config Config) *Clock { return &Clock{config: config} }

// Now returns the wall clock's time, without a monotonic reading: two of them
// differ by what the wall clock says, whether or not it was set in between.
func (c *Clock) Now() time.Time {
	now := time.Now().Round(0)
	if c == nil || c.config.Offset == nil {
		return now
	}
	return now.Add(c.config.Offset())
}

// started is what SinceBoot counts from where the machine's boot is not known.
var started = time.Now()

// SinceBoot returns the time since the machine started. It is comparable with
// values of other processes that have the same BootID.
func (c *Clock) SinceBoot() time.Duration {
	if c == nil || c.config.SinceBoot == nil {
		return time.Since(started)
	}
	return c.config.SinceBoot()
}

// BootID identifies the boot that SinceBoot counts from; empty if it is not known.
func (c *Clock) BootID() string {
	if c == nil {
		return ""
	}
	return c.config.BootID
}
