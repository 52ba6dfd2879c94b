// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// waiting is what deliberate changes wait for, as the last plan said.
type waiting struct {
	images []plan.ImageWait
	// kept are the running containers that are left as they are meanwhile.
	kept []string
	// prepared is what was known of the images.
	prepared map[plan.ImageKey]plan.Preparation
	// probed is plan.ProbedPod of pod.
	probed, pod *corev1.Pod
}

// awaitImages plans for what deliberate changes wait, and has it pulled.
func (s *syncer) awaitImages(ctx context.Context, d desired, observed *plan.PodStatus) {
	in := s.planInput(d, observed)
	s.pulls.keep(func() map[plan.ImageKey]bool { return plan.ImagesInUse(in) }, d.pod.Annotations[v1alpha1.AnnotationRestartedAt])
	in.Prepared = s.pulls.prepared()
	actions := plan.Compute(in)
	s.pulls.want(ctx, d.pod, actions.Waits)
	s.waits = waiting{
		images: actions.Waits, kept: actions.Kept, prepared: in.Prepared,
		probed: plan.ProbedPod(d.pod, d.previous, observed, actions.Kept), pod: d.pod,
	}
	for _, held := range actions.Held {
		if r := held.Reason; r != (plan.Reason{}) && r.Reason != v1alpha1.ReasonPulling {
			s.waiting[held.Container] = r
		}
	}
}

// endWaits waits for nothing any more.
func (s *scope) endWaits() {
	s.pulls.stop()
	s.waits = waiting{}
}

// probed is the pod by which the containers that run are probed.
func (s *scope) probed(d desired) *corev1.Pod {
	if s.waits.probed != nil && s.waits.pod == d.pod {
		return s.waits.probed
	}
	return d.pod
}

// condition says what is waited for, as far as that is known; nil if for nothing.
func (w *waiting) condition() []metav1.Condition {
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
