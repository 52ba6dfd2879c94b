// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Apart takes a plan apart that kills single containers: into parts that have nothing to do with
// each other, each with kills and the starts that follow them, and the rest, which waits for no
// kill. Each may be carried out while the others are: a kill takes its time, fails or hangs for the
// containers that it is about, and for no other. A plan about the whole pod stays whole.
func (a *Actions) Apart(pod *corev1.Pod) (parts []Actions, rest Actions) {
	if a.KillPod || a.CreateSandbox || len(a.ContainersToReset) > 0 {
		return nil, *a
	}
	rest = *a
	rest.ContainersToKill = nil
	for _, kills := range a.together(pod) {
		parts = append(parts, rest.take(pod, a, kills))
	}
	return parts, rest
}

// take moves what belongs to kills from the rest of a plan to a part of its own.
func (a *Actions) take(pod *corev1.Pod, whole *Actions, kills []Kill) Actions {
	part := Actions{SandboxID: a.SandboxID, Attempt: a.Attempt, Images: a.Images, ContainersToKill: kills}
	init, main := pod.Spec.InitContainers, pod.Spec.Containers
	if whole.initializes(pod) && killsAny(init, kills) {
		part.InitContainersToStart, a.InitContainersToStart = a.InitContainersToStart, nil
	} else {
		part.InitContainersToStart, a.InitContainersToStart = sift(init, a.InitContainersToStart, kills)
	}
	part.ContainersToStart, a.ContainersToStart = sift(main, a.ContainersToStart, kills)
	if slices.ContainsFunc(kills, isResize) {
		// The pod's own limits change with those of its containers.
		part.UpdatePodResources, a.UpdatePodResources = a.UpdatePodResources, false
		part.MemoryToUpdate, a.MemoryToUpdate = a.MemoryToUpdate, nil
		part.CPUToUpdate, a.CPUToUpdate = a.CPUToUpdate, nil
	}
	return part
}

// together returns the kills that are carried out in one part: those that wait for one another,
// those of one name, those for a resize, and those of init containers while the pod initializes,
// because the next init container starts after them.
func (a *Actions) together(pod *corev1.Pod) [][]Kill {
	var groups [][]Kill
	initializes := a.initializes(pod)
	belongs := func(k, other Kill) bool {
		return k.Name == other.Name || slices.Contains(k.WaitsFor, other.Name) || slices.Contains(other.WaitsFor, k.Name) ||
			isResize(k) && isResize(other) ||
			initializes && killsAny(pod.Spec.InitContainers, []Kill{k}) && killsAny(pod.Spec.InitContainers, []Kill{other})
	}
	for _, k := range a.ContainersToKill {
		group := []Kill{k}
		groups = slices.DeleteFunc(groups, func(g []Kill) bool {
			if !slices.ContainsFunc(g, func(other Kill) bool { return belongs(k, other) }) {
				return false
			}
			group = append(slices.Clone(g), group...)
			return true
		})
		groups = append(groups, group)
	}
	return groups
}

// initializes is whether a plan starts init containers that it does not kill.
func (a *Actions) initializes(pod *corev1.Pod) bool {
	_, others := sift(pod.Spec.InitContainers, a.InitContainersToStart, a.ContainersToKill)
	return len(others) > 0
}

func isResize(k Kill) bool { return k.Trigger == v1alpha1.TriggerResizeRequired }

func killsAny(containers []corev1.Container, kills []Kill) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool { return killed(kills, c.Name) })
}

// killed is whether a container of that name is killed.
func killed(kills []Kill, name string) bool {
	return slices.ContainsFunc(kills, func(k Kill) bool { return k.Name == name })
}

// sift separates the starts that follow kills from the others.
func sift(containers []corev1.Container, starts []int, kills []Kill) (after, others []int) {
	for _, i := range starts {
		if killed(kills, containers[i].Name) {
			after = append(after, i)
		} else {
			others = append(others, i)
		}
	}
	return after, others
}
