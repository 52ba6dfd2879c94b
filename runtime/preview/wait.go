// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// plan asks the plan as the worker does: what a change waits for is pulled first, and
// what cannot be pulled is waited for. (podworker wait.go)
func (b *builder) plan(in plan.Input) plan.Actions {
	in.Prepared = b.present()
	a := plan.Compute(in)
	if a.KillPod {
		return a
	}
	kept := a.Kept
	for _, w := range a.Waits {
		if in.Prepared[w.Image] == (plan.Preparation{}) {
			in.Prepared[w.Image] = b.prepare(w.Container, w.Image)
		}
	}
	if len(a.Waits) > 0 {
		a = plan.Compute(in)
	}
	b.waitNote(slices.DeleteFunc(kept, func(name string) bool { return slices.Contains(a.Kept, name) }))
	return a
}

// present are the images that the runtime has and that need no pull.
func (b *builder) present() map[plan.ImageKey]plan.Preparation {
	prepared := map[plan.ImageKey]plan.Preparation{}
	for c := range podspec.InitAndMain(b.Pod) {
		for _, key := range plan.ImageKeysOf(b.Pod, c) {
			if ref := b.Images[key.Image]; ref != "" && key.PresenceMatters() {
				prepared[key] = plan.Preparation{Ref: ref}
			}
		}
	}
	return prepared
}

// prepare is what becomes of an image before what runs is killed for it. A pull is taken
// to succeed, and what is not known of the runtime to be there.
func (b *builder) prepare(container string, key plan.ImageKey) plan.Preparation {
	if _, err := podspec.ImageName(key.Image); err != nil {
		return plan.Preparation{Reason: plan.Reason{Reason: "InvalidImageName", Message: err.Error()}}
	}
	ref, known := b.Images[key.Image]
	if slices.Contains(b.pulled, fullName(key.Image)) {
		ref = key.Image
	}
	need := key.Decide(ref)
	switch {
	case b.Images == nil, need.Use == plan.ImagePresent, !known && key.PresenceMatters():
		return plan.Preparation{Ref: key.Image}
	case need.Use == plan.ImageMissing:
		return plan.Preparation{Reason: plan.Reason{Reason: "ErrImageNeverPull",
			Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", key.Image)}}
	}
	b.pull(container, key.Image)
	return plan.Preparation{Ref: key.Image, Pulled: true}
}

// waitNote says that kills come after the pulls.
func (b *builder) waitNote(names []string) {
	switch {
	case len(names) == 0:
	case b.Images == nil:
		b.note("The kill waits until the image to start from is on the node: %s.", strings.Join(names, ", "))
	case slices.ContainsFunc(b.out.Steps, func(s Step) bool { return s.Action == ActionPull }):
		b.note("The kill waits for the pull: %s. If the pull fails, the container keeps running as it is.", strings.Join(names, ", "))
	}
}

// waitReason says for which image or object nothing happens to a container; empty if for none.
func (b *builder) waitReason(name string, a plan.Actions) string {
	held := slices.ContainsFunc(a.Held, func(h plan.HeldStart) bool { return h.Container == name })
	if !held && !slices.Contains(a.Kept, name) {
		return ""
	}
	if i := slices.IndexFunc(a.MissingWaits, func(m plan.Missing) bool { return m.Container == "" || m.Container == name }); i >= 0 || len(a.Waits) == 0 {
		return "the change waits: " + a.MissingWaits[max(i, 0)].Reason.Message
	}
	wait := a.Waits[0]
	if i := slices.IndexFunc(a.Waits, func(w plan.ImageWait) bool { return w.Container == name }); i >= 0 {
		wait = a.Waits[i]
	}
	reason := fmt.Sprintf("the change waits for image %q", wait.Image.Image)
	if wait.Container != name {
		reason += " of container " + wait.Container
	}
	return reason + ": " + wait.Reason.Reason
}
