// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"fmt"
	"slices"
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
	for _, s := range slices.Backward(r.sandboxes) {
		lines = append(lines, fmt.Sprintf("sandbox %s attempt=%d %s ip=%q", s.Id, s.Metadata.GetAttempt(), s.State, s.Network.GetIp()))
	}
	for _, c := range slices.Backward(r.containers) {
		lines = append(lines, fmt.Sprintf("container %s in %s attempt=%d %s exit=%d %s created=%s started=%s finished=%s",
			c.Id, c.sandbox, c.Metadata.GetAttempt(), c.State, c.ExitCode, c.Reason,
			r.since(c.CreatedAt), r.since(c.StartedAt), r.since(c.FinishedAt)))
	}
	return append(lines, r.logFiles()...)
}

func (r *Runtime) since(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Unix(0, ns).Sub(r.begun).Round(time.Microsecond).String()
}
