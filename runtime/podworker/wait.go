// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// imageWaits is what deliberate changes wait for, as the last plan said.
type imageWaits struct {
	images []plan.ImageWait
	// objects are those that are waited for, and missing all that was known to be missing.
	objects, missing []plan.Missing
	// prepared is what was known of the images.
	prepared map[plan.ImageKey]plan.Preparation
	// probed is plan.ProbedPod of pod, or keeps.
	probed, pod *corev1.Pod
	// keeps is plan.KeptPod while a sandbox waits to be replaced, nil if that is not known.
	keeps *corev1.Pod
}

// sandboxOf is the pod that a sandbox was made from.
type sandboxOf struct {
	id  string
	pod *corev1.Pod
}

// awaitImages plans for what deliberate changes wait, and has it pulled.
func (s *syncer) awaitImages(ctx context.Context, d desired, observed *plan.PodStatus) {
	in := s.planInput(d, observed)
	s.pulls.keep(func() map[plan.ImageKey]bool { return plan.ImagesInUse(in) }, d.pod.Annotations[v1alpha1.AnnotationRestartedAt])
	in.Prepared, in.Missing = s.pulls.prepared(), nil
	old := plan.RunsEarlier(in.Definitions, observed)
	s.recall(in)
	s.noteStartedByParts(observed)
	in.Probed = plan.ProbedPod(d.pod, s.made, observed, old)
	actions := s.withObjects(ctx, &in, s.confirmed(ctx, &in, s.withPresent(ctx, &in)))
	if actions.Replaces() || actions.Resizes() {
		s.mem.unnoteTemplate(d)
	}
	if actions.KillPod {
		actions.Waits, actions.MissingWaits = nil, nil
	}
	s.pulls.want(ctx, d.pod, actions.Waits)
	s.noteMade(in, actions, append(old, actions.Kept...))
	if s.waits.keeps != nil {
		return // nothing is held back
	}
	for _, held := range actions.Held {
		if r := held.Reason; r != (plan.Reason{}) && r.Reason != v1alpha1.ReasonPulling {
			s.waiting[held.Container] = r
		}
	}
}

// recall notes what an earlier process knew of what a change waits to replace.
func (s *syncer) recall(in plan.Input) {
	if s.made != nil || in.Previous == nil {
		return
	}
	before := plan.Define(in.Previous)
	s.made = s.made.Note(in.Previous, before, in.Observed, nil)
	if plan.MadeSandbox(in.Previous, before, in.Observed) {
		s.sandbox = sandboxOf{in.Observed.Sandboxes[0].ID, in.Previous}
	}
}

// noteMade notes what there is was made from, and by what it is kept and probed. What an
// earlier process wrote down counts if it says that all of it ran.
func (s *syncer) noteMade(in plan.Input, actions plan.Actions, old []string) {
	if keeps := s.waits.keeps; keeps != nil { // what has been started since is made from it
		s.made = s.made.Note(keeps, plan.Define(keeps), in.Observed, nil)
	}
	if pod := in.Pod; !actions.KeepsSandbox && (!in.Unconfirmed || s.mem.runsWanted()) {
		s.made = s.made.Note(pod, in.Definitions, in.Observed, old)
		if plan.MadeSandbox(pod, in.Definitions, in.Observed) {
			s.sandbox = sandboxOf{in.Observed.Sandboxes[0].ID, pod}
		}
	}
	s.waits = imageWaits{
		images: actions.Waits, objects: actions.MissingWaits, missing: in.Missing, prepared: in.Prepared,
		probed: plan.ProbedPod(in.Pod, s.made, in.Observed, old), pod: in.Pod,
	}
	if actions.KeepsSandbox && s.sandbox.id == in.Observed.Sandboxes[0].ID {
		s.waits.keeps = plan.KeptPod(s.sandbox.pod, s.made, in.Observed)
		s.waits.probed = s.waits.keeps
	}
	s.mem.keep(s.waits.keeps)
}

// withPresent plans with those of the missing images that the runtime has by now: for
// them the order of what kills a container is the kubelet's. Whoever prepares an image
// asks for it too, and nothing else waits for a runtime that does not answer.
func (s *syncer) withPresent(ctx context.Context, in *plan.Input) plan.Actions {
	actions := plan.Compute(*in)
	untried := slices.DeleteFunc(slices.Clone(actions.Waits), func(w plan.ImageWait) bool {
		_, tried := in.Prepared[w.Image]
		return tried
	})
	names := plan.ImagesToAskFor(waitedFor(untried))
	if len(names) == 0 {
		return actions
	}
	if in.Prepared == nil {
		in.Prepared = map[plan.ImageKey]plan.Preparation{}
	}
	s.ask(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, imagePatience)
		defer cancel()
		images := s.cfg.Runtime.Images(ctx, names)
		for key := range waitedFor(untried) {
			if need := key.Decide(images[key.Image]); s.usable(ctx, in.Pod, need) {
				in.Prepared[key] = plan.Preparation{Ref: need.Ref}
			}
		}
	})
	return plan.Compute(*in)
}

// usable is whether a start uses an image that is there. One that its pod may not use is
// pulled, or its lack is reported, by whoever prepares it.
func (s *syncer) usable(ctx context.Context, pod *corev1.Pod, need plan.ImageNeed) bool {
	return need.Use == plan.ImagePresent && s.cfg.Executor.ImageUsable(ctx, pod, need.Image, need.Ref)
}

// confirmed looks again, right before something is killed for it, whether what was
// prepared is still there; what is not is prepared once more, and waited for. What the
// runtime does not say is waited for too, and asked again after a while.
func (s *syncer) confirmed(ctx context.Context, in *plan.Input, actions plan.Actions) plan.Actions {
	s.askAgain = time.Time{}
	refs := s.pulls.refs()
	if len(refs) == 0 || !actions.KillsOnPurpose() {
		return actions
	}
	var found map[plan.ImageKey]bool
	s.ask(ctx, func(ctx context.Context) { found = s.found(ctx, refs) })
	maps.DeleteFunc(refs, func(key plan.ImageKey, _ string) bool { return found[key] })
	if len(refs) == 0 {
		return actions
	}
	for key := range refs {
		in.Prepared[key] = pulling
		if _, answered := found[key]; answered {
			s.pulls.renew(key)
		} else {
			s.askAgain = time.Now().Add(jitter(errorDelay))
		}
	}
	return plan.Compute(*in)
}

// withObjects plans again with the objects that are missing, where something is to be
// killed on purpose.
func (s *syncer) withObjects(ctx context.Context, in *plan.Input, actions plan.Actions) plan.Actions {
	if s.cfg.Objects == nil || !actions.Replaces() {
		return actions
	}
	if in.Missing = s.cfg.Objects.Missing(ctx, in.Pod); len(in.Missing) == 0 {
		return actions
	}
	return plan.Compute(*in)
}

// untilImages is when to look again for the sake of images and objects; false if for none.
func (s *syncer) untilImages() (time.Duration, bool) {
	left, ok := s.pulls.untilRetry(s.waits.images)
	if len(s.waits.objects) > 0 {
		if again := jitter(errorDelay); !ok || again < left {
			left, ok = again, true
		}
	}
	if s.askAgain.IsZero() {
		return left, ok
	}
	again := max(0, time.Until(s.askAgain))
	if ok {
		again = min(again, left)
	}
	return again, true
}

// waitedFor yields the images of waits.
func waitedFor(waits []plan.ImageWait) iter.Seq[plan.ImageKey] {
	return func(yield func(plan.ImageKey) bool) {
		for _, w := range waits {
			if !yield(w.Image) {
				return
			}
		}
	}
}

// endWaits waits for nothing any more.
func (s *scope) endWaits() {
	s.pulls.stop()
	s.waits = imageWaits{}
	s.requests = plan.RequestProgress{}
	s.mem.keep(nil)
}

// probed is the pod by which the containers that run are probed.
func (s *scope) probed(d desired) *corev1.Pod {
	if s.waits.probed != nil && s.waits.pod == d.pod {
		return s.waits.probed
	}
	return d.pod
}

// waitConditions are those about what is waited for: what an earlier process reported
// until the API has shown the object, because before nothing is known to have changed.
func (s *scope) waitConditions(d desired) []metav1.Condition {
	if d.seen || s.mem.state() != Syncing {
		if waits := s.waits.condition(); waits != nil {
			return waits
		}
		return s.mem.diskCondition()
	}
	return s.mem.waitConditions()
}

// condition says what is waited for, as far as that is known; nil if for nothing.
func (w *imageWaits) condition() []metav1.Condition {
	reason, messages := "", []string(nil)
	for _, wait := range w.images {
		if wait.Reason.Reason == "" {
			continue
		}
		if reason == "" || reason == v1alpha1.ReasonPulling {
			reason = wait.Reason.Reason
		}
		messages = append(messages, waitMessage(wait))
	}
	for _, missing := range w.objects {
		if reason == "" || reason == v1alpha1.ReasonPulling {
			reason = missing.Reason.Reason
		}
		messages = append(messages, missingMessage(missing))
	}
	if reason == "" {
		return nil
	}
	return []metav1.Condition{condition(v1alpha1.ConditionUpdateWaiting, true, reason, strings.Join(messages, "; "))}
}

// waitMessage names the container, its image and what is wrong with it.
func waitMessage(w plan.ImageWait) string {
	message := "container " + w.Container + " waits for image " + w.Image.Image + ": " + w.Reason.Reason
	if w.Reason.Message != "" {
		message += ": " + w.Reason.Message
	}
	return message
}

// missingMessage names who refers to what is missing.
func missingMessage(m plan.Missing) string {
	if m.Container == "" {
		return m.Reason.Message
	}
	return "container " + m.Container + ": " + m.Reason.Message
}
