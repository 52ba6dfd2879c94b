// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// containersToReset is the one place that decides what RestartAllContainers
// removes: every instance of every container, the other main containers first,
// then the other init containers, then the main and the init containers whose
// exit asked for it; each as in the spec.
// (kubelet kuberuntime_manager.go:getContainersToReset)
func (p *planner) containersToReset() []Reset {
	mainSources, mainTargets := p.resets(p.Pod.Spec.Containers)
	initSources, initTargets := p.resets(p.Pod.Spec.InitContainers)
	resets := append(mainTargets, initTargets...)
	resets = append(resets, mainSources...)
	return append(resets, initSources...)
}

// resets returns the instances whose exit asked for the restart, and the others.
func (p *planner) resets(containers []corev1.Container) (sources, targets []Reset) {
	for i := range containers {
		c := &containers[i]
		for j := range p.Observed.Containers {
			s := &p.Observed.Containers[j]
			switch {
			case s.Name != c.Name:
			case s.State != ContainerExited:
				targets = append(targets, Reset{ID: s.ID, Name: s.Name, Kill: p.resetKill(s)})
			case asksForRestartOfAll(c, s.ExitCode):
				sources = append(sources, Reset{ID: s.ID, Name: s.Name})
			default:
				targets = append(targets, Reset{ID: s.ID, Name: s.Name})
			}
		}
	}
	return sources, targets
}

// resetKill kills a container of a pod that starts over: without a grace period,
// and so without its hook. (kubelet kuberuntime_manager.go:SyncPod)
func (p *planner) resetKill(s *ContainerStatus) *Kill {
	why := Kill{Trigger: v1alpha1.TriggerRestartAllContainers, Message: "killing"}
	noGrace := Grace{Seconds: 0, Source: v1alpha1.GraceSourceOverride}
	kill := decideKill(p.Pod, s, why, DefinitionChanged(p.Definitions, s), &noGrace, p.Differences)
	return &kill
}

// ResetWait is a reset that is put off for the sake of a container whose exit asked for it.
type ResetWait struct {
	Name string
	*Wait
}

// CheckResetBackoff decides whether the reset of a pod has to wait: it does while a container whose exit asked for it
// would wait for its own restart. A reset leaves no exit that a later start could wait for. If there is no wait,
// next are the entries to keep, by their keys; nil for none.
func CheckResetBackoff(r *SyncRequest, d Differences, now Moment) (next map[string]*Backoff, waits []ResetWait) {
	next = map[string]*Backoff{}
	if !d.BackOffResets {
		return next, nil
	}
	for c := range podspec.InitAndMain(r.Pod) {
		exited := newestExited(r.Observed, c.Name)
		if exited == nil || !asksForRestartOfAll(c, exited.ExitCode) {
			continue
		}
		key, entry, wait := CheckBackoff(r, c, d, now)
		next[key] = entry
		if wait != nil {
			waits = append(waits, ResetWait{c.Name, wait})
		}
	}
	return next, waits
}
