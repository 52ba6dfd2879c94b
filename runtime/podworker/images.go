// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// withImages plans again with what the runtime says of the images that are needed.
func (s *syncer) withImages(ctx context.Context, in plan.Input, actions plan.Actions) plan.Actions {
	if !startsOnly(in.Observed, actions) {
		return actions
	}
	in.Images = s.cfg.Runtime.Images(ctx, plan.ImagesToAskFor(plan.ImageKeys(in.Pod, slices.Values(actions.Started(in.Pod)))))
	return plan.Compute(in)
}

// maxQuestions is how many images of a workload the runtime is asked about at a time.
const maxQuestions = 8

// found asks which of the images the runtime has, each with a patience of its own. An
// image that has no answer is not in what it returns. A runtime that does not answer in
// time is asked no more.
func (s *syncer) found(ctx context.Context, refs map[plan.ImageKey]string) map[plan.ImageKey]bool {
	var mu sync.Mutex
	found := map[plan.ImageKey]bool{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxQuestions)
	for key, ref := range refs {
		group.Go(func() error {
			return panics.Contain(s.log, "asking for an image", func() error {
				ctx, cancel := context.WithTimeout(ctx, imagePatience)
				defer cancel()
				if err := ctx.Err(); err != nil {
					return err
				}
				there, err := s.cfg.Runtime.ImageRef(ctx, ref)
				if err != nil {
					return ctx.Err() // another error says nothing about the other images
				}
				mu.Lock()
				defer mu.Unlock()
				found[key] = there != ""
				return nil
			})
		})
	}
	_ = group.Wait() // the first that took too long
	return found
}

// ask asks the runtime about images and stays awake: a change of what is wanted ends it.
func (s *syncer) ask(ctx context.Context, question func(context.Context)) {
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
