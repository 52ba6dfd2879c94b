// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Owed are containers that were ended on request or for a change and that are to run again, by
// name, each with the instance that was ended. Another one is started in its place whatever the
// restart policy says, as often as that fails, and also when the request is gone or the change was
// taken back. The kubelet forgets it: one start that fails, and the restart policy decides.
type Owed map[string]string

// Owes returns whether a kill makes the start of another instance due: one on request or for a change.
func Owes(kill *v1alpha1.KillRecord) bool {
	return forChange(kill) || onRequest(kill)
}

// onRequest reports that a container was killed because a request asked for it.
func onRequest(kill *v1alpha1.KillRecord) bool {
	return kill.Trigger == v1alpha1.TriggerRestartRequested || kill.Trigger == v1alpha1.TriggerStopRequested
}

// forChange reports that a container was killed for a change of the template: of its own definition, or
// of the pod's, which the messages of other changes of a sandbox do not name.
func forChange(kill *v1alpha1.KillRecord) bool {
	switch kill.Trigger {
	case v1alpha1.TriggerDefinitionChanged, v1alpha1.TriggerResizeRequired:
		return true
	case v1alpha1.TriggerSandboxChanged:
		return kill.Message == messagePodChanged || kill.Message == messageNetworkChanged
	default:
		return false
	}
}

// Starts is whether another instance of a container is due, of which s is the newest one, nil if
// there is none. One that the runtime could not start does not count.
func (o Owed) Starts(name string, s *ContainerStatus) bool {
	id, due := o[name]
	return due && (s == nil || s.ID == id || s.State != ContainerRunning && s.StartedAt.IsZero())
}

// OwedByRecords are the starts that are due by what was noted of KillRequests and of kills, the
// newest first, and by the status: all that there is of them where the checkpoint is lost.
func OwedByRecords(noted []v1alpha1.NodeRequestStatus, kills []v1alpha1.KillRecord, st *corev1.PodStatus) Owed {
	owed := owedForChanges(kills, st)
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

// owedForChanges are the containers whose newest kills were for a change, and of which no instance
// has started since.
func owedForChanges(kills []v1alpha1.KillRecord, st *corev1.PodStatus) Owed {
	owed, newest := Owed{}, map[string]string{}
	for i := range kills {
		k := &kills[i]
		if _, seen := newest[k.Container]; !seen {
			newest[k.Container] = k.ContainerID
		}
		if forChange(k) && newest[k.Container] == k.ContainerID && !startedSince(st, k) {
			owed[k.Container] = k.ContainerID
		}
	}
	return owed
}

// startedSince reports that an instance has started, by a status, after the one that was killed. If the
// status does not say, it counts as started: what has done its work must not do it twice.
func startedSince(st *corev1.PodStatus, k *v1alpha1.KillRecord) bool {
	if st == nil {
		return true
	}
	for _, cs := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if cs.Name != k.Container {
			continue
		}
		id, started := cs.ContainerID, cs.State.Running != nil
		if ended := cmp.Or(cs.State.Terminated, cs.LastTerminationState.Terminated); !started && ended != nil {
			id, started = ended.ContainerID, !ended.StartedAt.IsZero()
		}
		_, id, _ = strings.Cut(id, "://")
		return started && id != k.ContainerID
	}
	return true
}

// endedOnRequest is whether there was a requested kill of an instance.
func endedOnRequest(kills []v1alpha1.KillRecord, name, id string) bool {
	return slices.ContainsFunc(kills, func(k v1alpha1.KillRecord) bool {
		return k.Container == name && k.ContainerID == id && onRequest(&k)
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
	// Actuated is as Input has it.
	Actuated map[string]Resources
	Now      time.Time
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

// outlived is whether an instance ran on after its kill had failed, and nothing asks for its end
// any more: when it ends later, it ends by itself.
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
	pod := sandboxChange(in.Pod, in.Observed, in.Definitions, in.Definitions == nil)
	if pod.changed || pod.redefined || RestartRequested(in.Definitions, s) || DefinitionChanged(in.Definitions, s) || in.resizes(s) {
		return true
	}
	return slices.ContainsFunc(in.Noted, func(noted v1alpha1.NodeRequestStatus) bool {
		there := slices.ContainsFunc(in.Requests, func(r v1alpha1.NodeRequest) bool { return r.ID == noted.ID })
		return there && slices.ContainsFunc(noted.Containers, func(c v1alpha1.RequestContainerState) bool {
			return c.Name == s.Name && !over(c.Phase)
		})
	})
}

// resizes reports that the resources of an instance have changed in a way that needs a restart.
func (in *SettleInput) resizes(s *ContainerStatus) bool {
	c := podspec.Container(in.Pod, s.Name)
	if c == nil || in.Definitions == nil {
		return false
	}
	current, given := Actuated(in.Actuated, s)
	desired, known := in.Definitions.Resources[s.Name]
	return given && known && resizeRequired(candidate{container: c, current: current, desired: desired})
}

// lateEnd is how long after its grace period an instance whose kill failed may end because of it: the
// runtime may have sent the signal before it failed.
const lateEnd = 10 * time.Second

// failedUntil is until when the end of an instance comes from the kill for which a start is due, the
// newest of which has failed; the zero time if it has not, or if a kill is under way.
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
			until = endsUntil(k)
		}
	}
	return until
}

// endsUntil is until when the end of an instance comes from a kill of it that has failed.
func endsUntil(k *v1alpha1.KillRecord) time.Time {
	grace := time.Duration(min(k.Grace.Seconds, math.MaxInt32)) * time.Second
	return k.FinishTime.Add(grace + lateEnd)
}

// EndedByKill returns whether the shim killed an instance that ended at a time, or was about to, by the
// records of kills, the newest first: not if it ran on after the newest of its kills had failed.
func EndedByKill(kills []v1alpha1.KillRecord, id string, ended time.Time) bool {
	i := slices.IndexFunc(kills, func(k v1alpha1.KillRecord) bool { return k.ContainerID == id })
	if i < 0 {
		return false
	}
	k := &kills[i]
	failed := k.Phase == v1alpha1.KillPhaseDone && k.Outcome == v1alpha1.KillOutcomeFailed && k.FinishTime != nil
	return !failed || !ended.After(endsUntil(k))
}

// startsAgain is the one place that decides whether a main container that does not run is
// started: its policy says so, a request, or a kill for which it is due.
func (p *planner) startsAgain(c *corev1.Container, s *ContainerStatus) bool {
	starts := shouldBeRestarted(p.Pod, c, s)
	if s != nil && p.elsewhere(s) && p.Differences.NextSandbox && p.Pod.DeletionTimestamp == nil {
		starts = p.startsInNext(c, s, false)
	}
	return starts || p.Asked[c.Name].restarts(s) || p.owes(c.Name)
}

// owes is whether the start of a container is due that was ended on request or for a change.
func (p *planner) owes(name string) bool {
	return p.Pod.DeletionTimestamp == nil && p.Owed.Starts(name, p.Observed.Current(name))
}
