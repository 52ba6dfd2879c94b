// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// TerminationOrder returns for each running sidecar the running containers
// whose end it waits for before it is stopped: all main containers, then the
// next sidecar of the spec. If that one does not run, no later one is waited
// for. Containers without an entry wait for none.
// (kubelet kuberuntime_termination_order.go:newTerminationOrdering)
func TerminationOrder(pod *corev1.Pod, running []string) map[string][]string {
	var mains []string
	for i := range pod.Spec.Containers {
		if name := pod.Spec.Containers[i].Name; slices.Contains(running, name) {
			mains = append(mains, name)
		}
	}
	order := map[string][]string{}
	next := ""
	for i := range slices.Backward(pod.Spec.InitContainers) {
		c := &pod.Spec.InitContainers[i]
		if !podspec.IsSidecar(c) {
			continue
		}
		if slices.Contains(running, c.Name) {
			waitsFor := slices.Clone(mains)
			if next != "" && slices.Contains(running, next) {
				waitsFor = append(waitsFor, next)
			}
			if len(waitsFor) > 0 {
				order[c.Name] = waitsFor
			}
		}
		next = c.Name
	}
	return order
}

// inOrder sets which of the kills that may wait do so, and for which: of these, and of the containers
// whose kills began earlier. Without a grace period there is nothing to wait with.
func inOrder(pod *corev1.Pod, kills []Kill, begun []string, mayWait func(Kill) bool) []Kill {
	names := slices.Clone(begun)
	for i := range kills {
		names = append(names, kills[i].Name)
	}
	order := TerminationOrder(pod, names)
	for i := range kills {
		if kills[i].Grace.Seconds > 0 && mayWait(kills[i]) {
			kills[i].WaitsFor = order[kills[i].Name]
		}
	}
	return kills
}

// orderKills is the one place that decides which kills of a sync wait. A sidecar that is killed on
// purpose works, and the main containers need it until they have ended, whatever ends them, and
// whenever that began; so does the sidecar before it. That is the order of a termination. A
// sidecar that is killed because it has failed is of no use to them, and no other kill waits. The
// kubelet's follow one another in the order of a map.
func (p *planner) orderKills() {
	if len(p.actions.ContainersToKill) == 0 {
		return
	}
	begun := p.killsBegun()
	kills := inOrder(p.Pod, p.actions.ContainersToKill, begun, onPurpose)
	for i := range kills {
		if k := &kills[i]; k.Removed && k.Grace.Seconds > 0 && p.wasSidecar(k.ID) {
			k.WaitsFor = p.mainsAmong(kills, begun)
		}
	}
}

// onPurpose is whether a kill was asked for and its container has not failed.
func onPurpose(k Kill) bool {
	return deliberate(k.Trigger) || k.Trigger == v1alpha1.TriggerStopRequested || k.Trigger == v1alpha1.TriggerContainerRemoved
}

// wasSidecar is whether a container that the template does not name was a sidecar.
func (p *planner) wasSidecar(id string) bool {
	return slices.ContainsFunc(p.Observed.Containers, func(s ContainerStatus) bool { return s.ID == id && s.Recorded.Sidecar })
}

// killsBegun names the containers that run and whose kill is under way.
func (p *planner) killsBegun() []string {
	var names []string
	for i := range p.Observed.Containers {
		if s := &p.Observed.Containers[i]; p.UnderWay[s.Name] && s.State != ContainerExited && s.State != ContainerCreated {
			names = append(names, s.Name)
		}
	}
	return names
}

// mainsAmong names the main containers that are killed, or whose kill began earlier.
func (p *planner) mainsAmong(kills []Kill, begun []string) []string {
	var names []string
	for i := range p.Pod.Spec.Containers {
		if name := p.Pod.Spec.Containers[i].Name; killed(kills, name) || slices.Contains(begun, name) {
			names = append(names, name)
		}
	}
	return names
}
