// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"
)

// Call is one that the shim made of the runtime, as it came in at the socket.
type Call struct {
	// Method is RunPodSandbox, CreateContainer, StartContainer, ExecSync (only hooks use
	// it here), StopContainer, RemoveContainer, StopPodSandbox or RemovePodSandbox.
	Method             string
	Container, Sandbox string
	// Timeout is what a StopContainer leaves the container: 2 s or more.
	Timeout time.Duration
	// Began is when it came in, Made when the runtime got it (zero if never), Ended
	// when it was answered or its caller was gone.
	Began, Made, Ended time.Time
	// Done reports that the runtime carried it out, Refused that its caller got an
	// error for an answer.
	Done, Refused bool
}

// sandboxOf is the sandbox in which a container was made; "" if nothing tells.
func (j *judge) sandboxOf(l *Life) string {
	for _, c := range j.byContainer[l.ID] {
		if c.Sandbox != "" {
			return c.Sandbox
		}
	}
	return ""
}

// startCutOff is when the call that started a container was cut off; zero if the
// runtime has carried one out.
func (j *judge) startCutOff(l *Life) (cut time.Time) {
	for _, c := range j.byContainer[l.ID] {
		if c.Method != "StartContainer" {
			continue
		}
		if c.Done {
			return time.Time{}
		}
		cut = c.Ended
	}
	return cut
}

// endedByCall reports that a call after from, and before the end of the life, stops or removes the container or
// its sandbox.
func (j *judge) endedByCall(l *Life, from time.Time) bool {
	sandbox := ""
	for _, c := range j.byContainer[l.ID] {
		if c.Method == "CreateContainer" {
			sandbox = c.Sandbox
		}
	}
	return slices.ContainsFunc(j.Calls, func(c Call) bool {
		if c.Began.Before(from) || c.Began.After(l.Last) {
			return false
		}
		switch c.Method {
		case "StopContainer", "RemoveContainer":
			return c.Container == l.ID
		case "StopPodSandbox", "RemovePodSandbox":
			return sandbox == "" || c.Sandbox == sandbox
		}
		return false
	})
}

// attempt are the calls of one kill of a container: its hook's, and stops. A stop
// that was refused ends it, and the next try is a kill with all its time.
type attempt []*Call

// attempts are the kills of a life, in their order.
func (j *judge) attempts(l *Life) (all []attempt) {
	var now attempt
	for _, c := range j.byContainer[l.ID] {
		if c.Method != "ExecSync" && c.Method != "StopContainer" || c.Began.After(l.Last) {
			continue
		}
		now = append(now, c)
		if c.Method == "StopContainer" && c.Refused && c.Ended.Before(l.Last) {
			all, now = append(all, now), nil
		}
	}
	if len(now) > 0 {
		all = append(all, now)
	}
	return all
}

func (a attempt) began() time.Time { return a[0].Began }
func (a attempt) ended() time.Time { return a[len(a)-1].Ended }

// cut reports that a call was cut off by the end of its caller.
func (a attempt) cut() bool {
	for _, c := range a {
		if c.Method == "StopContainer" && !c.Done && !c.Refused {
			return true
		}
	}
	return len(a) > 0 && a[len(a)-1].Method != "StopContainer" || a.hooks() > 1
}

func (a attempt) hooks() (n int) {
	for _, c := range a {
		if c.Method == "ExecSync" {
			n++
		}
	}
	return n
}

// due is when the runtime had to have ended a container, by the stops that it got and
// answered with the container's end; zero if it got none. An answer before the end, and
// a stop that was cut off, leave the delay with the shim.
func (j *judge) due(l *Life) (due time.Time) {
	for _, c := range j.byContainer[l.ID] {
		if c.Timeout == 0 || !c.Done || c.Made.After(l.Last) || c.Ended.Before(l.Last.Add(-clockTick)) {
			continue
		}
		if end := c.Made.Add(c.Timeout); due.IsZero() || end.Before(due) {
			due = end
		}
	}
	return due
}

// stopBeforeReady is when a container was stopped before its program took signals;
// zero if it was not. The kernel drops a signal that the first process of a container
// does not take.
func (j *judge) stopBeforeReady(l *Life) time.Time {
	for _, c := range j.byContainer[l.ID] {
		if c.Method == "StopContainer" && !c.Made.IsZero() && c.Made.Before(l.Start) {
			return c.Made
		}
	}
	return time.Time{}
}

// sandboxCutOff reports that a runtime shim was started for a RunPodSandbox whose caller
// was gone before its answer: containerd then ends the command that starts the shim, and
// forgets what the command has started by then.
func (j *judge) sandboxCutOff(shim EmptyShim) bool {
	return slices.ContainsFunc(j.Calls, func(c Call) bool {
		return c.Method == "RunPodSandbox" && !c.Done && !c.Refused && !c.Made.IsZero() &&
			!shim.Started.Before(c.Made.Add(-clockTick)) && !shim.Started.After(c.Ended.Add(beat))
	})
}

// asked is when the shim first asked the runtime for the end of a container, by the clock
// of the machine; otherwise where it did not.
func (j *judge) asked(l *Life, otherwise time.Time) time.Time {
	for _, c := range j.byContainer[l.ID] {
		if c.Method == "ExecSync" || c.Method == "StopContainer" {
			return c.Began
		}
	}
	return otherwise
}

// hookBeforeReady reports that a hook ran before the container's program took signals:
// what it sent was dropped.
func (j *judge) hookBeforeReady(l *Life) bool {
	return slices.ContainsFunc(j.byContainer[l.ID], func(c *Call) bool {
		return c.Method == "ExecSync" && !c.Made.IsZero() && c.Made.Before(l.Start)
	})
}

// removed reports that the runtime reported a sandbox as removed.
func (j *judge) removed(sandbox string) bool {
	return slices.ContainsFunc(j.Calls, func(c Call) bool {
		return c.Method == "RemovePodSandbox" && c.Sandbox == sandbox && c.Done
	})
}

// firstAsk is when the shim first asked the runtime for what the container then heard
// of its end: the hook, or the stop.
func (j *judge) firstAsk(l *Life) time.Time {
	for _, a := range j.attempts(l) {
		if !a.ended().Before(l.began()) {
			return a.began()
		}
	}
	return time.Time{}
}
