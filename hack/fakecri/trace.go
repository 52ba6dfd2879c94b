// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"fmt"
	"time"
)

// Entry is one thing that an agent did, or what came of it.
type Entry struct {
	// T is the time in seconds since the scenario began.
	T float64
	// Op is the CRI method, Event, HTTPRequest, Result or Observed.
	Op string
	// Container by its name; empty for what is about the pod.
	Container string
	// Detail is all that is compared besides.
	Detail string
}

func (e Entry) String() string {
	return fmt.Sprintf("%8.3f %-16s %-8s %s", e.T, e.Op, e.Container, e.Detail)
}

// Record adds an entry to the trace.
func (r *Runtime) Record(op, container, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record(op, container, format, args...)
}

func (r *Runtime) record(op, container, format string, args ...any) {
	r.trace = append(r.trace, Entry{
		T: time.Since(r.begun).Seconds(), Op: op, Container: container, Detail: fmt.Sprintf(format, args...),
	})
}

// Take returns what was recorded since the last time.
func (r *Runtime) Take() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	trace := r.trace
	r.trace = nil
	return trace
}

// State describes every sandbox and container, newest first, and lists the logs.
func (r *Runtime) State() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	var lines []string
	for _, s := range r.Sandboxes {
		lines = append(lines, fmt.Sprintf("sandbox %s attempt=%d SANDBOX_%s ip=%q", s.ID, s.Attempt, s.State, s.network().GetIp()))
	}
	for _, c := range r.Containers {
		lines = append(lines, fmt.Sprintf("container %s in %s attempt=%d %s exit=%d %s created=%s started=%s finished=%s",
			c.ID, c.SandboxID, c.RestartCount, c.state(), c.ExitCode, c.Reason,
			r.since(c.CreatedAt), r.since(c.StartedAt), r.since(c.FinishedAt)))
	}
	return append(lines, r.logFiles()...)
}

func (r *Runtime) since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(r.begun).Round(time.Microsecond).String()
}
