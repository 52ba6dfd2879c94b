// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Compute decides what one sync of a pod has to do. Without a pod or without an
// observation nothing is planned: what is not known must not start twice.
// (kubelet kuberuntime_manager.go:computePodActions)
func Compute(in Input) Actions {
	if in.Pod == nil || in.Observed == nil {
		return Actions{}
	}
	p := planner{Input: in}
	p.sync()
	if p.Differences.KillsAtOnce {
		p.orderKills()
	}
	p.holdStarts()
	p.imageNeeds()
	return p.actions
}

// planner is one computation.
type planner struct {
	Input
	actions Actions
	// held: a change of the sandbox waits for images or objects.
	held bool
}

func (p *planner) sync() {
	change := p.cgroupMissing(p.heldChange(sandboxChange(p.Pod, p.Observed, p.confirmed(), p.Unconfirmed)))
	p.actions.SandboxID, p.actions.Attempt = change.id, change.attempt
	if change.needed {
		p.killPodForSandbox(change)
	}
	switch {
	case change.needed && p.staysStopped(change):
		return
	case p.RestartAllContainers:
		p.actions.ContainersToReset = p.containersToReset()
		return
	case change.needed:
		p.startOver(change)
		return
	}
	p.ephemeralContainers()
	if p.initContainers() {
		p.mainContainers()
	}
	if p.Differences.KillStrays && !p.actions.KillPod {
		p.killStrays()
	}
}

// ephemeralContainers starts those that never ran; they are never restarted,
// and do not wait for the initialization.
func (p *planner) ephemeralContainers() {
	for i := range p.Pod.Spec.EphemeralContainers {
		if p.Observed.Current(p.Pod.Spec.EphemeralContainers[i].Name) == nil {
			p.actions.EphemeralContainersToStart = append(p.actions.EphemeralContainersToStart, i)
		}
	}
}

// confirmed are the definitions that something may be killed for.
func (p *planner) confirmed() *Definitions {
	if p.Unconfirmed {
		return nil
	}
	return p.Definitions
}

// candidate is a running container that a rule may kill.
func (p *planner) candidate(c *corev1.Container, s *ContainerStatus) candidate {
	f := candidate{
		container: c, probed: p.probedBy(c), status: s, probes: p.Probes[s.ID], definitions: p.confirmed(), asked: p.Asked[c.Name],
	}
	if f.definitions == nil {
		return f
	}
	desired, known := f.definitions.Resources[c.Name]
	if current, ok := Actuated(p.Actuated, s); ok && known {
		f.current, f.desired = current, desired
	}
	return f
}

// probedBy is the definition by which a container is probed.
func (p *planner) probedBy(c *corev1.Container) *corev1.Container {
	if p.Probed != nil && p.Probed != p.Pod {
		if probed := podspec.Container(p.Probed, c.Name); probed != nil {
			return probed
		}
	}
	return c
}

func (p *planner) startInit(i int) {
	p.actions.InitContainersToStart = append(p.actions.InitContainersToStart, i)
}

func (p *planner) start(i int) {
	p.actions.ContainersToStart = append(p.actions.ContainersToStart, i)
}

func (p *planner) kill(s *ContainerStatus, why Kill) {
	if why.Trigger == v1alpha1.TriggerResizeRequired {
		p.actions.UpdatePodResources = true
	}
	if why.Trigger == v1alpha1.TriggerDefinitionChanged {
		why.ChangedFields = changedSince(p.Previous, p.Pod, s)
	}
	p.actions.ContainersToKill = append(p.actions.ContainersToKill, p.decide(s, why))
}

func (p *planner) decide(s *ContainerStatus, why Kill) Kill {
	pod := p.Pod
	if p.Probed != nil && isProbes(why.Trigger) {
		pod = p.Probed
	}
	why, override := p.asked(s, why)
	return decideKill(pod, s, why, DefinitionChanged(p.Definitions, s), override, p.Differences)
}

// isProbes is whether a probe asks for a kill.
func isProbes(t v1alpha1.KillTrigger) bool {
	return t == v1alpha1.TriggerLivenessProbe || t == v1alpha1.TriggerStartupProbe
}

// inSpecOrder puts what the scan of the init containers found, from the last to
// the first, into the order of the spec.
func (p *planner) inSpecOrder() {
	slices.Reverse(p.actions.InitContainersToStart)
	slices.Reverse(p.actions.ContainersToKill)
}
