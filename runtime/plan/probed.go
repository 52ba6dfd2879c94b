// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// ProbedPod returns the pod by which containers are probed, and reported, while those named in kept
// wait for the image of another definition: each is what it was made from, as far as
// previous says it. Where that is not known, no probe kills it: one that was written for
// the new image may fail in the old one, and nothing could be started in its place.
func ProbedPod(pod, previous *corev1.Pod, observed *PodStatus, kept []string) *corev1.Pod {
	if len(kept) == 0 || len(observed.Sandboxes) == 0 {
		return pod
	}
	probed := pod.DeepCopy()
	// They run in the network of the sandbox that is there.
	probed.Spec.HostNetwork = networkOf(&observed.Sandboxes[0]) == NetworkNode
	for _, list := range [][]corev1.Container{probed.Spec.InitContainers, probed.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if !slices.Contains(kept, c.Name) {
				continue
			}
			if old := madeFrom(previous, observed.Current(c.Name)); old != nil {
				*c = *old.DeepCopy()
			} else {
				c.LivenessProbe, c.StartupProbe = nil, nil
			}
		}
	}
	return probed
}

// madeFrom returns the container of a pod that an instance was made from, nil if it was
// made from another one.
func madeFrom(pod *corev1.Pod, s *ContainerStatus) *corev1.Container {
	if pod == nil || s == nil {
		return nil
	}
	if c := podspec.Container(pod, s.Name); c != nil && !Redefined(c, s) {
		return c
	}
	return nil
}
