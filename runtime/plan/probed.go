// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Made is what instances were made from, by container ID, with the probes that were last
// theirs. One that is not in it is not known.
type Made map[string]*corev1.Container

// Note returns what is known after another look: those named in old, and those of another
// definition, stay what they were made from, and all others are what the pod says.
func (m Made) Note(pod *corev1.Pod, defs *Definitions, observed *PodStatus, old []string) Made {
	next := Made{}
	for i := range observed.Containers {
		s := &observed.Containers[i]
		if observed.Current(s.Name) != s {
			continue
		}
		c := podspec.Container(pod, s.Name)
		if c == nil || slices.Contains(old, s.Name) || DefinitionChanged(defs, s) {
			c = m[s.ID]
		}
		if c != nil {
			next[s.ID] = c
		}
	}
	return next
}

// ProbedPod returns the pod by which containers are probed, and reported, while those named in kept
// are, or wait for the image of, another definition: each is what it was made from, as far as
// that is known. Where it is not, no probe kills it: one that was written for
// the new image may fail in the old one, and nothing could be started in its place.
func ProbedPod(pod *corev1.Pod, made Made, observed *PodStatus, kept []string) *corev1.Pod {
	if len(kept) == 0 || len(observed.Sandboxes) == 0 {
		return pod
	}
	probed := pod.DeepCopy()
	// They run in the network of the sandbox that is there.
	probed.Spec.HostNetwork = networkOf(&observed.Sandboxes[0]) == NetworkNode
	for _, list := range [][]corev1.Container{probed.Spec.InitContainers, probed.Spec.Containers} {
		for i := range list {
			c, s := &list[i], observed.Current(list[i].Name)
			if s == nil || !slices.Contains(kept, c.Name) {
				continue
			}
			if old := made[s.ID]; old != nil {
				*c = *old.DeepCopy()
			} else {
				c.LivenessProbe, c.StartupProbe = nil, nil
			}
		}
	}
	return probed
}

// KeptPod returns the pod by which what is in a sandbox is kept while its successor waits
// for images: before, which the sandbox was made from, with each container as its newest
// instance was made.
func KeptPod(before *corev1.Pod, made Made, observed *PodStatus) *corev1.Pod {
	var names []string
	for c := range podspec.InitAndMain(before) {
		names = append(names, c.Name)
	}
	return ProbedPod(before, made, observed, names)
}

// MadeSandbox is whether the newest sandbox is as a pod defines it.
func MadeSandbox(pod *corev1.Pod, defs *Definitions, observed *PodStatus) bool {
	if len(observed.Sandboxes) == 0 {
		return false
	}
	newest := &observed.Sandboxes[0]
	return !podDefinitionChanged(defs, newest) && networkOf(newest) == networkFor(pod)
}
