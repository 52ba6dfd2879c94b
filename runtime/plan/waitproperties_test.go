// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Whatever is observed, nothing is killed on purpose while an image is missing that it
// is to be started from, and what is not killed on purpose is killed with and without
// the difference.
func TestPropertyNoDeliberateKillWithoutImage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		with := plan.Compute(in)
		for _, k := range with.ContainersToKill {
			if isDeliberate(k.Trigger) && missing(in, k.Name) {
				t.Errorf("%s is killed (%s), and its image is not there", k.Name, k.Trigger)
			}
		}
		inUse := plan.ImagesInUse(in)
		for _, w := range with.Waits {
			if !inUse[w.Image] {
				t.Errorf("%s waits for an image that is given up", w.Container)
			}
		}
		checkPodKill(t, in, with)
		if len(with.ContainersToReset) == 0 && !with.KillPod {
			checkStartsHaveImages(t, in, with)
		}
		in.Differences.PullBeforeKill = false
		without := plan.Compute(in)
		finished := with.Trigger == v1alpha1.TriggerWorkloadFinished && len(with.Waits) > 0 // by a probe of what waits
		if !without.Redefined && !finished {
			checkSameUnasked(t, with, without)
		}
		for name := range plan.ImagesInUse(in) {
			in.Prepared[name] = plan.Preparation{Ref: "sha256:there"}
		}
		in.Differences.PullBeforeKill = true
		checkPrepared(t, plan.Compute(in), without)
	})
}

func isDeliberate(trigger v1alpha1.KillTrigger) bool {
	return trigger == v1alpha1.TriggerDefinitionChanged || trigger == v1alpha1.TriggerRestartRequested || trigger == v1alpha1.TriggerResizeRequired
}

func missing(in plan.Input, name string) bool {
	return in.Prepared[plan.ImageKeyOf(spec(in, name))].Ref == ""
}

// checkPodKill: a pod that is killed for its definition, and in which something may run,
// has all images of what it starts at once.
func checkPodKill(t *rapid.T, in plan.Input, a plan.Actions) {
	t.Helper()
	runs := slices.ContainsFunc(in.Observed.Containers, func(c plan.ContainerStatus) bool {
		return c.State == plan.ContainerRunning && !plan.Foreign(in.Pod, &c)
	})
	if !a.Redefined || !runs {
		return
	}
	for _, name := range startsOf(in, a) {
		if missing(in, name) {
			t.Errorf("The pod is killed for its definition, and the image of %s is not there", name)
		}
	}
}

// checkStartsHaveImages: no instance of another definition is replaced without its image.
func checkStartsHaveImages(t *rapid.T, in plan.Input, a plan.Actions) {
	t.Helper()
	for _, name := range startsOf(in, a) {
		s := in.Observed.Current(name)
		if s != nil && plan.DefinitionChanged(in.Definitions, s) && missing(in, name) {
			t.Errorf("%s is started in place of another definition, and its image is not there", name)
		}
	}
}

// checkSameUnasked: every kill that is not deliberate without the difference is one with
// it, and the other way round, but for those of containers that it kept.
func checkSameUnasked(t *rapid.T, with, without plan.Actions) {
	t.Helper()
	if with.KillPod != without.KillPod || with.Trigger != without.Trigger {
		t.Errorf("The pod is killed (%t %s), without the difference (%t %s)", with.KillPod, with.Trigger, without.KillPod, without.Trigger)
	}
	if diff := cmp.Diff(without.ContainersToReset, with.ContainersToReset); diff != "" {
		t.Errorf("Resets differ:\n%s", diff)
	}
	kept := func(k plan.Kill) bool { return isDeliberate(k.Trigger) || slices.Contains(with.Kept, k.Name) }
	if diff := cmp.Diff(slices.DeleteFunc(slices.Clone(without.ContainersToKill), kept),
		slices.DeleteFunc(slices.Clone(with.ContainersToKill), kept), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Kills that are not deliberate differ (-without +with the difference):\n%s", diff)
	}
}

// checkPrepared: with all images there the difference changes nothing but what is said
// about images.
func checkPrepared(t *rapid.T, with, without plan.Actions) {
	t.Helper()
	if diff := cmp.Diff(without, with, cmpopts.IgnoreFields(plan.Actions{}, "Images"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("With all images there plans differ (-without +with the difference):\n%s", diff)
	}
}
