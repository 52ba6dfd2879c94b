// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// mainContainers decides about the main containers of an initialized pod.
// (kubelet kuberuntime_manager.go:computePodActions)
func (p *planner) mainContainers() {
	kept := 0
	for i := range p.Pod.Spec.Containers {
		if c := &p.Pod.Spec.Containers[i]; p.UnderWay[c.Name] || p.mainContainer(i, c) {
			kept++
		}
	}
	if kept == 0 && len(p.actions.ContainersToStart) == 0 {
		p.nothingLeft()
	}
}

// mainContainer returns whether a main container is kept as it is.
func (p *planner) mainContainer(i int, c *corev1.Container) (kept bool) {
	s := p.last(c.Name)
	switch {
	case s == nil || s.State != ContainerRunning:
		return p.stoppedContainer(i, c, s)
	case p.elsewhere(s):
		return true // until it is dead (killStrays)
	}
	return p.runningContainer(i, c, s)
}

// stoppedContainer starts a container again if its policy says so, or a request, after a kill
// if it is not known whether it still runs. One that a request keeps stopped is kept so.
func (p *planner) stoppedContainer(i int, c *corev1.Container, s *ContainerStatus) (kept bool) {
	stops := p.stops(c.Name)
	if !stops && !p.startsAgain(c, s) {
		return false
	}
	if !stops {
		p.start(i)
	}
	if s != nil && s.State == ContainerUnknown && !p.elsewhere(s) {
		p.killUnknown("Container", s)
	}
	return stops
}

// runningContainer returns whether the container is kept as it is.
func (p *planner) runningContainer(i int, c *corev1.Container, s *ContainerStatus) (kept bool) {
	f := p.candidate(c, s)
	rule := p.ruleFor(mainRules, f, true)
	if rule == nil {
		p.keep(f)
		return true
	}
	kill := rule.kill(f)
	if rule.stays {
		p.kill(s, kill)
		return true
	}
	if rule.restarts || restartsWhenKilled(p.Pod, c) {
		if !rule.plain {
			kill.Message += ", will be restarted"
		}
		p.start(i)
	}
	p.kill(s, kill)
	return false
}

// killUnknown is the one place that kills a container because its state is not
// known: there must never be two instances of it.
func (p *planner) killUnknown(what string, s *ContainerStatus) {
	p.kill(s, Kill{
		Trigger: v1alpha1.TriggerUnknownState,
		Message: fmt.Sprintf("%s is in %q state, try killing it before restart", what, s.State),
	})
}

// nothingLeft ends a pod in which no main container runs on or is started;
// sidecars do not keep it alive.
func (p *planner) nothingLeft() {
	message := "no container is left to keep or to start"
	if kills := p.actions.ContainersToKill; len(kills) > 0 {
		message = kills[len(kills)-1].Message + ", " + message
	}
	p.finish(message)
}

// finish is the one place that decides about WorkloadFinished.
func (p *planner) finish(message string) {
	p.actions.KillPod = true
	p.actions.InitContainersToStart = nil
	p.actions.Trigger = v1alpha1.TriggerWorkloadFinished
	p.actions.Message = message
}
