// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

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
// that there is of them in an object's status, and in what earlier versions of the shim noted.
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

// Left returns what is still due, given what is observed.
func (o Owed) Left(pod *corev1.Pod, observed *PodStatus) Owed {
	left := Owed{}
	for c := range podspec.InitAndMain(pod) {
		if o.Starts(c.Name, observed.Current(c.Name)) {
			left[c.Name] = o[c.Name]
		}
	}
	return left
}

// startsAgain is the one place that decides whether a main container that does not run is
// started: its policy says so, or a request.
func (p *planner) startsAgain(c *corev1.Container, s *ContainerStatus) bool {
	return shouldBeRestarted(p.Pod, c, s) || p.Asked[c.Name].restarts(s) || p.owes(c.Name)
}

// owes is whether the start of a container is due that a request has ended.
func (p *planner) owes(name string) bool {
	return p.Pod.DeletionTimestamp == nil && p.Owed.Starts(name, p.Observed.Current(name))
}
