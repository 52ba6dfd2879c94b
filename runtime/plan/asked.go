// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Asked is what KillRequests ask of one container.
type Asked struct {
	// Trigger is RestartRequested or StopRequested; empty: nothing is asked.
	Trigger v1alpha1.KillTrigger
	// ContainerID is the instance that a restart is about: no other is killed.
	ContainerID string
	// Cause follows the message in the record.
	Cause, RequestedBy string
	// Grace replaces the grace period, in seconds; nil does not.
	Grace *int64
	// Force: a container that has not started yet is killed, too.
	Force bool
}

// restarts is whether the restart of an instance is asked for.
func (a Asked) restarts(s *ContainerStatus) bool {
	return a.Trigger == v1alpha1.TriggerRestartRequested && s != nil && a.ContainerID == s.ID
}

// stops is whether a container is to be stopped, and to stay so.
func (a Asked) stops() bool { return a.Trigger == v1alpha1.TriggerStopRequested }

// stops is the one place that decides that a container is not started because a request
// keeps it stopped.
func (p *planner) stops(name string) bool { return p.Asked[name].stops() }

// stopsAny is whether requests keep a main container of the pod stopped.
func (p *planner) stopsAny() bool {
	for i := range p.Pod.Spec.Containers {
		if p.stops(p.Pod.Spec.Containers[i].Name) {
			return true
		}
	}
	return false
}

// asked adds to a kill what the request says that asks for it.
func (p *planner) asked(s *ContainerStatus, why Kill) (Kill, *Grace) {
	a := p.Asked[s.Name]
	if a.Trigger != why.Trigger || !a.stops() && !a.restarts(s) {
		return why, nil
	}
	why.Cause, why.RequestedBy = why.EventMessage()+": "+a.Cause, a.RequestedBy
	if a.Grace == nil {
		return why, nil
	}
	return why, &Grace{Seconds: *a.Grace, Source: v1alpha1.GraceSourceOverride}
}

// stopAsked is the one place that decides about StopRequested.
func stopAsked(f candidate) bool { return f.asked.stops() }

// restartAsked is whether a request asks for the restart of this instance.
func restartAsked(f candidate) bool { return f.asked.restarts(f.status) }

// forgives is whether the end of an instance counts for no back-off because a request asked
// for it: one that was stopped, or whose restart is asked for.
func (r *SyncRequest) forgives(id string) bool { return slices.Contains(r.Forgiven, id) }
