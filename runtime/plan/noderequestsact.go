// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// bareID is the runtime's ID of a container ID as a status has it.
func bareID(id string) string {
	if _, bare, found := strings.Cut(id, "://"); found {
		return bare
	}
	return id
}

// restart asks for the end of the instance that was noted, and waits for the one that comes
// after it.
func (a *advance) restart(c *v1alpha1.RequestContainerState, s *ContainerStatus) {
	if a.between(c, s) {
		a.owe(c)
	}
	switch {
	case s == nil, s.ID != c.ContainerID && neverStarted(s):
	case s.ID == c.ContainerID:
		if s.State != ContainerRunning || a.unreadyLongEnough(c) {
			a.ask(c, v1alpha1.TriggerRestartRequested)
		}
	case s.State == ContainerExited:
		fail(c, "the new instance ended with exit code %d", s.ExitCode)
	default:
		a.awaitStart(c, s)
	}
}

// between is whether the instance that a restart is about has ended, and none has started since.
func (a *advance) between(c *v1alpha1.RequestContainerState, s *ContainerStatus) bool {
	return s == nil || s.State == ContainerExited && s.ID == c.ContainerID || neverStarted(s)
}

// neverStarted is whether the runtime has made a container that it has not started.
func neverStarted(s *ContainerStatus) bool {
	return s.State != ContainerRunning && s.State != ContainerUnknown && s.StartedAt.IsZero()
}

// owe notes that the start of another instance is due, also when the request is gone.
func (a *advance) owe(c *v1alpha1.RequestContainerState) {
	c.Message = "waits for the start of another instance"
	if a.out.Owed == nil {
		a.out.Owed = Owed{}
	}
	a.out.Owed[c.Name] = c.ContainerID
}

// tooLate ends what is not done before the deadline. What has ended for it is started nevertheless.
func (a *advance) tooLate(c *v1alpha1.RequestContainerState, s *ContainerStatus) {
	begun := c.Phase == v1alpha1.RequestInProgress && a.request.Action == v1alpha1.RequestRestart
	if begun && a.between(c, s) {
		a.owe(c)
		fail(c, "not done before the deadline; another instance is started as soon as that works")
		return
	}
	fail(c, "not done before the deadline")
}

// awaitStart waits until a new instance has run for long enough and is ready.
func (a *advance) awaitStart(c *v1alpha1.RequestContainerState, s *ContainerStatus) {
	st := a.reported(s)
	if s.State != ContainerRunning || st == nil || !st.Ready {
		c.Message = "the new instance is not ready yet"
		return
	}
	if left := time.Duration(a.request.MinStartedSeconds)*time.Second - a.sinceStart(c, s); left > 0 {
		c.Message = fmt.Sprintf("the new instance has to run for %d s", a.request.MinStartedSeconds)
		a.wake(left)
		return
	}
	c.Phase, c.Message = v1alpha1.RequestSucceeded, "restarted"
}

// stop asks for the end of whatever instance runs, and that none is started.
func (a *advance) stop(c *v1alpha1.RequestContainerState, s *ContainerStatus) {
	if s != nil && (s.State == ContainerRunning || s.State == ContainerUnknown) {
		c.Phase, c.ContainerID = v1alpha1.RequestInProgress, s.ID
		if a.unreadyLongEnough(c) {
			a.ask(c, v1alpha1.TriggerStopRequested)
		}
		return
	}
	c.Phase, c.Message = v1alpha1.RequestHeld, ""
	a.hold(c)
}

// hold keeps a container stopped.
func (a *advance) hold(c *v1alpha1.RequestContainerState) {
	a.ask(c, v1alpha1.TriggerStopRequested)
	if a.out.Held == nil {
		a.out.Held = map[string]Reason{}
	}
	a.out.Held[c.Name] = Reason{Reason: v1alpha1.ReasonStopRequested, Message: "stopped by " + a.cause()}
}

// unreadyLongEnough is whether the pod was not ready for as long as the request says.
func (a *advance) unreadyLongEnough(c *v1alpha1.RequestContainerState) bool {
	if a.request.UnreadySeconds == 0 {
		return true
	}
	a.unready()
	// The time of the begin has whole seconds only.
	left := time.Duration(a.request.UnreadySeconds+1)*time.Second - a.sinceBegin(c)
	if left > 0 {
		a.wake(left)
	}
	return left <= 0
}

// unready has the pod count as not ready.
func (a *advance) unready() {
	a.out.Unready = &Reason{Reason: v1alpha1.ReasonKillRequested, Message: a.cause()}
}

// ask asks for the end of a container. Where several requests do, one that stops it counts.
func (a *advance) ask(c *v1alpha1.RequestContainerState, trigger v1alpha1.KillTrigger) {
	if a.out.Asked[c.Name].stops() {
		return
	}
	if a.out.Asked == nil {
		a.out.Asked = map[string]Asked{}
	}
	a.out.Asked[c.Name] = a.asked(c, trigger)
}

func (a *advance) asked(c *v1alpha1.RequestContainerState, trigger v1alpha1.KillTrigger) Asked {
	return Asked{
		Trigger: trigger, ContainerID: c.ContainerID, Cause: a.cause(), RequestedBy: a.request.RequestedBy,
		Grace: a.request.GracePeriodSeconds, Force: a.request.Force,
	}
}

// cause names the request, and its reason.
func (a *advance) cause() string {
	cause := "KillRequest " + a.request.Name
	if a.request.Reason != "" {
		cause += ": " + a.request.Reason
	}
	return cause
}

// foretell says what a request would do, by the same decisions.
func (a *advance) foretell(c *v1alpha1.RequestContainerState, s *ContainerStatus) {
	c.Phase = v1alpha1.RequestSucceeded
	if s != nil {
		c.ContainerID = s.ID
	}
	trigger := v1alpha1.TriggerRestartRequested
	switch {
	case a.request.Action == v1alpha1.RequestSignal:
		c.Message = "would get " + a.request.Signal
		return
	case s == nil || s.State != ContainerRunning:
		c.Message = "does not run: would be started at once"
		if a.request.Action == v1alpha1.RequestStop {
			c.Message = "does not run: would not be started"
		}
		return
	case a.request.Action == v1alpha1.RequestStop:
		trigger = v1alpha1.TriggerStopRequested
	}
	p := planner{Input: Input{Pod: a.Pod, Observed: a.Observed, Differences: a.Differences}}
	c.ContainerID = s.ID
	p.Asked = map[string]Asked{c.Name: a.asked(c, trigger)}
	kill := p.decide(s, Kill{Trigger: trigger})
	hook := "no preStop hook"
	if kill.PreStopWithin(kill.Grace.Seconds) != nil {
		hook = "a preStop hook"
	}
	c.Message = fmt.Sprintf("would be killed: %s, grace period %d s (%s), %s", trigger, kill.Grace.Seconds, kill.Grace.Source, hook)
}

// sumUp is how far a request is whose containers are so far.
func sumUp(containers []v1alpha1.RequestContainerState) (v1alpha1.RequestPhase, string) {
	count := map[v1alpha1.RequestPhase]int{}
	message := ""
	for i := range containers {
		c := &containers[i]
		if count[c.Phase]++; c.Phase == v1alpha1.RequestFailed && message == "" {
			message = "container " + c.Name + ": " + c.Message
		}
	}
	pending, open := count[v1alpha1.RequestPending], count[v1alpha1.RequestInProgress]
	switch {
	case pending == len(containers):
		return v1alpha1.RequestPending, message
	case pending+open > 0:
		return v1alpha1.RequestInProgress, message
	case count[v1alpha1.RequestHeld] > 0:
		return v1alpha1.RequestHeld, message
	case count[v1alpha1.RequestFailed] > 0:
		return v1alpha1.RequestFailed, message
	}
	return v1alpha1.RequestSucceeded, message
}

// Signalled returns what is noted about requests after a signal was sent; failed is why it
// was not, "" if it was.
func Signalled(noted []v1alpha1.NodeRequestStatus, sent SignalRequest, failed string) []v1alpha1.NodeRequestStatus {
	next := make([]v1alpha1.NodeRequestStatus, len(noted))
	for i := range noted {
		noted[i].DeepCopyInto(&next[i])
		if next[i].ID != sent.RequestID {
			continue
		}
		for j := range next[i].Containers {
			if c := &next[i].Containers[j]; c.Name != sent.Container {
				continue
			} else if failed != "" {
				fail(c, "%s", failed)
			} else {
				c.Phase, c.Message = v1alpha1.RequestSucceeded, "got "+sent.Signal
			}
		}
		next[i].Phase, next[i].Message = sumUp(next[i].Containers)
	}
	return next
}
