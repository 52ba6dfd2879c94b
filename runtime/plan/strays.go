// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// killStrays kills what runs beside the plan. The kubelet has no such kills.
func (p *planner) killStrays() {
	var kills []Kill
	for i := range p.Observed.Containers {
		s := &p.Observed.Containers[i]
		if s.State == ContainerExited || s.State == ContainerCreated || p.UnderWay[s.Name] {
			continue
		}
		position := p.position(s.Name)
		switch {
		case position < 0 && p.confirmed() != nil && !Foreign(p.Pod, s) && !p.held:
			kills = append(kills, p.removedKill(s))
		case position >= 0 && s.State == ContainerRunning && p.Observed.Current(s.Name) != s:
			kills = append(kills, p.secondInstanceKill(s))
		case position >= 0 && s.State == ContainerRunning && p.elsewhere(s):
			kills = append(kills, p.earlierSandboxKill(s))
		}
	}
	slices.SortFunc(kills, func(a, b Kill) int {
		return cmp.Or(
			cmp.Compare(uint(p.position(a.Name)), uint(p.position(b.Name))),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.ID, b.ID),
		)
	})
	p.actions.ContainersToKill = append(p.actions.ContainersToKill, kills...)
}

// Foreign is the one place that tells a container that only bears our labels from
// one that was removed from the template: the template names neither, but the
// foreign one was not made from one, because no definition was recorded with it. It is
// left alone.
func Foreign(pod *corev1.Pod, s *ContainerStatus) bool {
	return s.Hash == "" && position(pod, s.Name) < 0
}

func (p *planner) removedKill(s *ContainerStatus) Kill {
	return p.decide(s, Kill{
		Trigger: v1alpha1.TriggerContainerRemoved,
		Message: fmt.Sprintf("Container %s was removed from the template", s.Name),
		Removed: true,
	})
}

// secondInstanceKill kills an instance that runs although a newer one exists: a
// state that a runtime should never report.
func (p *planner) secondInstanceKill(s *ContainerStatus) Kill {
	return p.decide(s, Kill{
		Trigger: v1alpha1.TriggerUnknownState,
		Message: fmt.Sprintf("Container %s has a newer instance", s.Name),
	})
}

// earlierSandboxKill kills an instance that runs in a sandbox that was replaced: the runtime
// reported its end before, or did not know whether it ran.
func (p *planner) earlierSandboxKill(s *ContainerStatus) Kill {
	return p.decide(s, Kill{
		Trigger: v1alpha1.TriggerUnknownState,
		Message: fmt.Sprintf("Container %s runs in an earlier sandbox", s.Name),
	})
}

func (p *planner) position(name string) int { return position(p.Pod, name) }

// position returns where the spec names a container: init containers, then
// containers, then ephemeral ones; -1 if it does not.
func position(pod *corev1.Pod, name string) int {
	at := 0
	for c := range podspec.InitAndMain(pod) {
		if c.Name == name {
			return at
		}
		at++
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return at + i
		}
	}
	return -1
}
