// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import "time"

// Call is one that the shim made of the runtime, as it came in at the socket.
type Call struct {
	// Method is CreateContainer, StartContainer, ExecSync (only hooks use it here)
	// or StopContainer.
	Method             string
	Container, Sandbox string
	// Began is when it came in, Made when the runtime got it (zero if never), Ended
	// when it was answered or its caller was gone.
	Began, Made, Ended time.Time
	// Done tells that the runtime carried it out, Refused that its caller got an
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

// told is when the shim first asked the runtime for what the container then heard
// of its end: the hook, or the stop. A stop that was refused is another kill's: the
// one that follows has all its time.
func (j *judge) told(l *Life) time.Time {
	var told time.Time
	for _, c := range j.byContainer[l.ID] {
		switch {
		case c.Method != "ExecSync" && c.Method != "StopContainer" || c.Began.After(l.began()):
		case c.Method == "StopContainer" && c.Refused && c.Ended.Before(l.began()):
			told = time.Time{}
		case told.IsZero():
			told = c.Began
		}
	}
	return told
}
