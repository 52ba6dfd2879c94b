// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history judges what happened during a campaign of faults. It is pure:
// what the containers wrote, what was asked for, which faults were made and what
// the API said come in as values, and violations come out.
package history

import (
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Life is one instance of a container, as its own journal tells it.
type Life struct {
	Workload, Container string
	// ID is the runtime's, UID the NodeWorkload's.
	ID, UID string
	// Incarnation counts the creations of the workload's name, Revision the
	// templates of one incarnation.
	Incarnation, Revision int
	// Grace is the template's terminationGracePeriodSeconds.
	Grace time.Duration
	// Sidecar reports that the container ends after the main containers.
	Sidecar bool

	// Start is the first and Last the last line, a heartbeat included.
	Start, Last time.Time
	// Hook is when the preStop hook reached the container, Term when the stop
	// signal did; zero when they never did.
	Hook, Term time.Time
	Terms      int
	// Stopped reports that the program ended by itself, with Code. Without it,
	// it was killed by SIGKILL, or runs.
	Stopped bool
	Code    int
	// NotAlone reports that another instance held the container's lock.
	NotAlone bool
}

// Asked is when the container first heard of its end, zero if never.
func (l *Life) Asked() time.Time {
	if l.Hook.IsZero() || !l.Term.IsZero() && l.Term.Before(l.Hook) {
		return l.Term
	}
	return l.Hook
}

// killed reports that the life did not end by the program's own will.
func (l *Life) killed() bool { return !l.Asked().IsZero() || !l.Stopped }

// began is when the kill began: for SIGKILL out of nowhere, its end.
func (l *Life) began() time.Time {
	if asked := l.Asked(); !asked.IsZero() {
		return asked
	}
	return l.Last
}

// RequestKind is what was asked for.
type RequestKind string

// The requests that kill.
const (
	Change    RequestKind = "Change"    // of a field that is fixed at creation
	Restart   RequestKind = "Restart"   // by the annotation
	Delete    RequestKind = "Delete"    // of the workload
	FailProbe RequestKind = "FailProbe" // the liveness probe fails from From to Until
)

// Request is something that ends containers.
type Request struct {
	Kind     RequestKind
	Workload string
	// Container is that of FailProbe; the others are for all.
	Container   string
	Incarnation int
	// Revision is that of the template that Change and Restart wrote.
	Revision int
	// From is when it was first sent, Acked when the API had it (zero if never).
	From, Acked time.Time
	// Until is the end of a failing probe.
	Until time.Time
	// Grace is what it leaves a container.
	Grace time.Duration
}

// Fault is what was done to the stack.
type Fault struct {
	Kind     string
	From, To time.Time
	// Node reports that it holds up kills under way, API that it holds up requests
	// and reports.
	Node, API bool
	// Disk reports that the state disk did not answer: a kill waits a moment for it.
	Disk bool
	// Unwritten reports that the state disk took no checkpoints, and Forgetful that the
	// shim was killed: what it had not written is lost.
	Unwritten, Forgetful bool
	// Forgets reports that the runtime was killed: it may have lost what it was just
	// starting.
	Forgets bool
	// Pod and Sandbox are whose runtime shim was Killed or stopped; empty for a fault
	// that is about all.
	Pod, Sandbox string
	Killed       bool
	// Backup is when the copy was made that etcd was restored from, and Has the
	// revision of the template of each NodeWorkload in it, by UID.
	Backup time.Time
	Has    map[string]int
}

// Record is the last state of a kill record that the API had.
type Record struct {
	Workload, UID string
	v1alpha1.KillRecord
}

// History is everything that is known after a campaign.
type History struct {
	Lives    []Life
	Requests []Request
	// Calls are in the order of their beginning.
	Calls   []Call
	Faults  []Fault
	Records []Record
	// Created is when a NodeWorkload was made, in whole seconds, and Gone when the API
	// no longer had it, by UID.
	Created, Gone map[string]time.Time
	// LeftBehind are things that should not be there at the end.
	LeftBehind []string
	// EmptyShims are runtime shims without containers that are left.
	EmptyShims []EmptyShim
}

// EmptyShim is a runtime shim that holds no container.
type EmptyShim struct {
	Name, Sandbox string
	Started       time.Time
}

// Violation is a rule that was broken.
type Violation struct{ Rule, Text string }

// Report is the judgement.
type Report struct {
	Violations []Violation
	// Exempt counts what the rules do not apply to, by reason.
	Exempt map[string]int
	// Lives, Kills and Judged are how many instances there were, how many of them
	// were killed, and how many kill records were compared with a journal.
	Lives, Kills, Judged int
	// Outside is how many kills were compared with the longest time that they may
	// take while nothing failed that can hold one up.
	Outside int
}
