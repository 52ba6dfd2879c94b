// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// withImages plans again with what the runtime says of the images that are needed.
func (s *syncer) withImages(ctx context.Context, in plan.Input, actions plan.Actions) plan.Actions {
	if !startsOnly(in.Observed, actions) {
		return actions
	}
	in.Images = s.cfg.Runtime.Images(ctx, plan.ImagesToAskFor(slices.Values(actions.Started(in.Pod))))
	return plan.Compute(in)
}

// ask asks the runtime about images and stays awake: a change of what is wanted ends it,
// and so does time.
func (s *syncer) ask(ctx context.Context, question func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, imagePatience)
	defer cancel()
	woken := false
	attend(ctx, s.wake, question, func(cancel func()) {
		if woken = true; s.mem.changed() {
			cancel()
		}
	})
	if woken {
		s.wakeUp() // the step that asks looked before
	}
}

// startsOnly says that a plan starts containers and has nothing to end before, which
// may take so long that what the runtime says of images by then is out of date.
func startsOnly(observed *plan.PodStatus, a plan.Actions) bool {
	if a.KillPod && slices.ContainsFunc(observed.Containers, func(c plan.ContainerStatus) bool { return c.State != plan.ContainerExited }) {
		return false
	}
	return starts(a) && len(a.ContainersToKill)+len(a.ContainersToReset) == 0
}
