// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Owed are containers that a person has had ended and that are to run again, by name, each with
// the instance that was ended. Another one is started in its place whatever the restart policy
// says, as often as that fails, and also when the request is gone. The kubelet has nothing of
// the kind: it ends no container on request.
type Owed map[string]string

// Owes is whether a kill makes the start of another instance due: one that was requested.
func Owes(kill *v1alpha1.KillRecord) bool {
	return kill.Trigger == v1alpha1.TriggerRestartRequested || kill.Trigger == v1alpha1.TriggerStopRequested
}

// Starts is whether another instance of a container is due, of which s is the newest one, nil if
// there is none. One that the runtime could not start does not count.
func (o Owed) Starts(name string, s *ContainerStatus) bool {
	id, due := o[name]
	return due && (s == nil || s.ID == id || s.State != ContainerRunning && s.StartedAt.IsZero())
}

// OwedByRecords are the starts that are due by what was noted of KillRequests and of kills: all
// that there is of them where the checkpoint is lost.
func OwedByRecords(noted []v1alpha1.NodeRequestStatus, kills []v1alpha1.KillRecord) Owed {
	owed := Owed{}
	for i := range noted {
		for _, c := range noted[i].Containers {
			begun := c.Phase == v1alpha1.RequestHeld || c.Phase == v1alpha1.RequestInProgress
			if begun && endedOnRequest(kills, c.Name, c.ContainerID) {
				owed[c.Name] = c.ContainerID
			}
		}
	}
	return owed
}

// endedOnRequest is whether there was a requested kill of an instance.
func endedOnRequest(kills []v1alpha1.KillRecord, name, id string) bool {
	return slices.ContainsFunc(kills, func(k v1alpha1.KillRecord) bool {
		return k.Container == name && k.ContainerID == id && Owes(&k)
	})
}

// SettleInput is what decides which starts stay due.
type SettleInput struct {
	Pod         *corev1.Pod
	Observed    *PodStatus
	Definitions *Definitions
	// Requests are those of the spec, and Noted is what was noted about them.
	Requests []v1alpha1.NodeRequest
	Noted    []v1alpha1.NodeRequestStatus
	// Kills are the records, the newest first.
	Kills []v1alpha1.KillRecord
	Now   time.Time
}

// Left returns what is still due, given what is observed.
func (o Owed) Left(in SettleInput) Owed {
	left := Owed{}
	for c := range podspec.InitAndMain(in.Pod) {
		s := in.Observed.Current(c.Name)
		if o.Starts(c.Name, s) && !in.outlived(s, o[c.Name]) {
			left[c.Name] = o[c.Name]
		}
	}
	return left
}

// outlived is whether an instance ran on after its requested kill had failed, and nothing asks for
// its end any more: when it ends later, it ends by itself.
func (in *SettleInput) outlived(s *ContainerStatus, id string) bool {
	if s == nil || s.ID != id || in.asks(s) {
		return false
	}
	until := failedUntil(in.Kills, id)
	switch {
	case until.IsZero():
		return false
	case s.State == ContainerRunning:
		return in.Now.After(until)
	}
	return s.State == ContainerExited && s.FinishedAt.After(until)
}

// asks is whether the end of an instance may still be asked for.
func (in *SettleInput) asks(s *ContainerStatus) bool {
	if RestartRequested(in.Definitions, s) {
		return true
	}
	return slices.ContainsFunc(in.Noted, func(noted v1alpha1.NodeRequestStatus) bool {
		there := slices.ContainsFunc(in.Requests, func(r v1alpha1.NodeRequest) bool { return r.ID == noted.ID })
		return there && slices.ContainsFunc(noted.Containers, func(c v1alpha1.RequestContainerState) bool {
			return c.Name == s.Name && !over(c.Phase)
		})
	})
}

// lateEnd is how long after its grace period an instance whose kill failed may end because of it: the
// runtime may have sent the signal before it failed.
const lateEnd = 10 * time.Second

// failedUntil is until when the end of an instance comes from its requested kill, the newest of which
// has failed; the zero time if it has not, or if a kill is under way.
func failedUntil(kills []v1alpha1.KillRecord, id string) (until time.Time) {
	for i := range kills {
		k := &kills[i]
		switch {
		case k.ContainerID != id:
		case k.Phase != v1alpha1.KillPhaseDone:
			return time.Time{}
		case !until.IsZero() || !Owes(k):
		case k.Outcome != v1alpha1.KillOutcomeFailed || k.FinishTime == nil:
			return time.Time{}
		default:
			grace := time.Duration(min(k.Grace.Seconds, math.MaxInt32)) * time.Second
			until = k.FinishTime.Add(grace + lateEnd)
		}
	}
	return until
}

// startsAgain is the one place that decides whether a main container that does not run is
// started: its policy says so, or a request.
func (p *planner) startsAgain(c *corev1.Container, s *ContainerStatus) bool {
	starts := shouldBeRestarted(p.Pod, c, s)
	if s != nil && p.elsewhere(s) && p.Differences.NextSandbox && p.Pod.DeletionTimestamp == nil {
		starts = p.startsInNext(c, s, false)
	}
	return starts || p.Asked[c.Name].restarts(s) || p.owes(c.Name)
}

// owes is whether the start of a container is due that a request has ended.
func (p *planner) owes(name string) bool {
	return p.Pod.DeletionTimestamp == nil && p.Owed.Starts(name, p.Observed.Current(name))
}
