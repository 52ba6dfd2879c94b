// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
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
// whose kills began earlier. made are the statuses of all of them. Without a grace period there is
// nothing to wait with.
func inOrder(pod *corev1.Pod, kills []Kill, made []ContainerStatus, mayWait func(Kill) bool) []Kill {
	var names []string
	for i := range made {
		names = append(names, made[i].Name)
	}
	order := TerminationOrder(asMade(pod, made), names)
	for i := range kills {
		if kills[i].Grace.Seconds > 0 && mayWait(kills[i]) {
			kills[i].WaitsFor = order[kills[i].Name]
		}
	}
	return kills
}

// asMade returns a pod that names containers where the templates did that they were made from: one that
// was renamed, removed or moved, or became another kind, serves the others, or is served, until it ends.
// Where that was not recorded, the pod's own place counts.
func asMade(pod *corev1.Pod, made []ContainerStatus) *corev1.Pod {
	var moved []ContainerStatus
	moves := func(name string) bool {
		return slices.ContainsFunc(moved, func(s ContainerStatus) bool { return s.Name == name })
	}
	for i := range made {
		was, is := made[i].Recorded.Place, PlaceOf(pod, made[i].Name)
		if was != nil && (is == nil || *was != *is) && !moves(made[i].Name) {
			moved = append(moved, made[i])
		}
	}
	if len(moved) == 0 {
		return pod
	}
	slices.SortFunc(moved, func(a, b ContainerStatus) int {
		return cmp.Or(cmp.Compare(a.Recorded.Place.Index, b.Recorded.Place.Index), cmp.Compare(a.Name, b.Name))
	})
	named := func(c corev1.Container) bool { return moves(c.Name) }
	inits := slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), named)
	mains := slices.DeleteFunc(slices.Clone(pod.Spec.Containers), named)
	for i := range moved {
		at, c := moved[i].Recorded.Place, corev1.Container{Name: moved[i].Name}
		if at.Sidecar {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		list := &mains
		if at.Init {
			list = &inits
		}
		*list = slices.Insert(*list, min(at.Index, len(*list)), c)
	}
	return &corev1.Pod{Spec: corev1.PodSpec{InitContainers: inits, Containers: mains}}
}

// PlaceOf returns where a pod names an init or main container; nil if it does not.
func PlaceOf(pod *corev1.Pod, name string) *Place {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return &Place{Index: i, Init: true, Sidecar: podspec.IsSidecar(c)}
		}
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &Place{Index: i}
		}
	}
	return nil
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
	var made []ContainerStatus
	for i := range p.Observed.Containers {
		s := &p.Observed.Containers[i]
		begun := p.UnderWay[s.Name] && s.State != ContainerExited && s.State != ContainerCreated
		if begun || slices.ContainsFunc(p.actions.ContainersToKill, func(k Kill) bool { return k.ID == s.ID }) {
			made = append(made, *s)
		}
	}
	inOrder(p.Pod, p.actions.ContainersToKill, made, onPurpose)
}

// onPurpose is whether a kill was asked for and its container has not failed.
func onPurpose(k Kill) bool {
	return deliberate(k.Trigger) || k.Trigger == v1alpha1.TriggerStopRequested || k.Trigger == v1alpha1.TriggerContainerRemoved
}
