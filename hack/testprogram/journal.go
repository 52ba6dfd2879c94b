// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// journal writes lines with their time to standard output and, if wanted, a file.
type journal struct {
	mu   sync.Mutex
	out  io.Writer
	file io.Writer // nil when there is none
}

func openJournal(file string) (*journal, error) {
	if file == "" {
		return &journal{out: os.Stdout}, nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	// The file goes first: standard output may block while it is not read.
	return &journal{out: io.MultiWriter(f, os.Stdout), file: f}, nil
}

func (j *journal) printf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A closed standard output must not stop a container from doing its work.
	_, _ = io.WriteString(j.out, stamped(fmt.Sprintf(format, args...)))
}

func stamped(text string) string { return time.Now().Format(time.RFC3339Nano) + " " + text + "\n" }

// beat writes "alive" into the file, so that a process killed by SIGKILL leaves the
// time until which it ran. It takes no lock: the lines of a file opened for
// appending stay whole, and a blocked standard output must not stop it.
func (j *journal) beat(ctx context.Context, period time.Duration) {
	if period <= 0 || j.file == nil {
		return
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		_, _ = io.WriteString(j.file, stamped("alive"))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
