// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// withImages plans again with what the runtime says of the images that are needed.
func (s *syncer) withImages(ctx context.Context, in plan.Input, actions plan.Actions) plan.Actions {
	if !startsOnly(in.Observed, actions) {
		return actions
	}
	in.Images = s.cfg.Runtime.Images(ctx, imagesOf(in.Pod, &actions))
	return plan.Compute(in)
}

// startsOnly says that a plan starts containers and has nothing to end before, which
// may take so long that what the runtime says of images by then is out of date.
func startsOnly(observed *plan.PodStatus, a plan.Actions) bool {
	if a.KillPod && slices.ContainsFunc(observed.Containers, func(c plan.ContainerStatus) bool { return c.State != plan.ContainerExited }) {
		return false
	}
	return starts(a) && len(a.ContainersToKill)+len(a.ContainersToReset) == 0
}

// imagesOf are the images whose presence matters to a plan.
func imagesOf(pod *corev1.Pod, a *plan.Actions) []string {
	var names []string
	for _, c := range a.Started(pod) {
		if plan.PresenceMatters(c) {
			names = append(names, c.Image)
		}
	}
	return names
}
