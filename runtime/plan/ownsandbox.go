// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// last returns the newest instance of a container, also one that has exited and that the
// runtime has lost since; nil if there is none.
func (p *planner) last(name string) *ContainerStatus {
	if s := p.Observed.Current(name); s != nil || !p.Differences.KeepExits {
		return s
	}
	return p.Exits.status(name)
}

// here returns the newest instance of a container if it is of the sandbox that is used. The
// kubelet takes one of any sandbox.
func (p *planner) here(name string) *ContainerStatus {
	if s := p.last(name); s != nil && !p.elsewhere(s) {
		return s
	}
	return nil
}

// elsewhere is whether an instance is of another sandbox than the one that is used. One that runs
// in a sandbox that the runtime does not list is left as it is.
func (p *planner) elsewhere(s *ContainerStatus) bool {
	if !p.Differences.OwnSandbox || s.SandboxID == "" || s.SandboxID == p.actions.SandboxID {
		return false
	}
	return s.State != ContainerRunning ||
		slices.ContainsFunc(p.Observed.Sandboxes, func(sandbox SandboxStatus) bool { return sandbox.ID == s.SandboxID })
}

// initializedHere is whether an instance of a main container shows that the init containers of
// this sandbox have completed: it was created after them.
func (p *planner) initializedHere() bool {
	if !p.Differences.OwnSandbox {
		return false
	}
	return slices.ContainsFunc(p.Pod.Spec.Containers, func(c corev1.Container) bool {
		s := p.here(c.Name)
		return s != nil && s.SandboxID != ""
	})
}

// startsInNext is whether a main container, whose newest instance is s, is started in the
// sandbox after that of s. What never ran is started; anything else goes by its own policy, as
// in the same sandbox, unless the template has changed since: then Never starts it, too.
func (p *planner) startsInNext(c *corev1.Container, s *ContainerStatus, redefined bool) bool {
	switch {
	case s == nil || s.State == ContainerCreated, s.State == ContainerUnknown && s.StartedAt.IsZero():
		return true
	case redefined || p.ofAnotherPod(s):
		return !runsOnce(p.Pod, c) || !succeeded(s)
	case s.State == ContainerExited:
		return ContainerShouldRestart(p.Pod, c, s.ExitCode)
	}
	return restartsWhenKilled(p.Pod, c)
}

// ofAnotherPod is whether the sandbox of an instance was made from another definition.
func (p *planner) ofAnotherPod(s *ContainerStatus) bool {
	return slices.ContainsFunc(p.Observed.Sandboxes, func(sandbox SandboxStatus) bool {
		return sandbox.ID == s.SandboxID && (podDefinitionChanged(p.confirmed(), &sandbox) ||
			!p.Unconfirmed && networkOf(&sandbox) != networkFor(p.Pod))
	})
}
