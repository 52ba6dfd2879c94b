// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// OffsetFileVariable is the environment variable that names a file with an offset of
// the wall clock, as time.ParseDuration reads it ("-1h", "90s"). The file may
// change at any time; one that is missing or cannot be read adds nothing. It
// exists for tests that inject faults: the machine's own clock is never set.
const OffsetFileVariable = "MANAGEDWORKLOAD_CLOCK_OFFSET_FILE"

// System returns the machine's clocks, with the offset that the environment names.
func System(bootID string) *Clock {
	config := Config{BootID: bootID, SinceBoot: sinceBoot}
	if path := os.Getenv(OffsetFileVariable); path != "" {
		config.Offset = func() time.Duration { return readOffset(path) }
	}
	return New(config)
}

// sinceBoot reads CLOCK_BOOTTIME; Linux always has it.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(started)
	}
	return time.Duration(ts.Nano())
}

func readOffset(path string) time.Duration {
	text, err := os.ReadFile(path) //nolint:gosec // whoever sets the shim's environment names the file
	if err != nil {
		return 0
	}
	offset, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return offset
}
