// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// journal writes lines with their time to standard output and, if wanted, a file.
type journal struct {
	mu  sync.Mutex
	out io.Writer
}

func openJournal(file string) (*journal, error) {
	if file == "" {
		return &journal{out: os.Stdout}, nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &journal{out: io.MultiWriter(os.Stdout, f)}, nil
}

func (j *journal) printf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := time.Now().Format(time.RFC3339Nano) + " " + fmt.Sprintf(format, args...) + "\n"
	// A closed standard output must not stop a container from doing its work.
	_, _ = io.WriteString(j.out, line)
}
