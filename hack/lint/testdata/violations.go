// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package violations is what the test must find.
package violations

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

type stopper interface {
	StopContainer(ctx context.Context, id string, timeoutSeconds int64) error
}

var words = map[v1alpha1.KillTrigger]string{v1alpha1.TriggerOrphan: "orphan"}

func trigger(orphan bool) v1alpha1.KillTrigger {
	if orphan {
		return v1alpha1.TriggerOrphan // found
	}
	return "Own" // found
}

func request(name string) plan.KillRequest {
	return plan.KillRequest{
		Trigger:  v1alpha1.TriggerTermination,                                   // found
		Override: &plan.Grace{Seconds: 1, Source: v1alpha1.GraceSourceOverride}, // found
		Message:  string(v1alpha1.KillTrigger(name)),                            // found
	}
}

func shown(k plan.Kill) bool {
	switch k.Trigger {
	case v1alpha1.TriggerOrphan:
		return true
	}
	return k.Trigger == v1alpha1.TriggerTermination && words[k.Trigger] != ""
}

func grace(pod *corev1.Pod, k plan.Kill) int64 {
	if k.Grace.Seconds < 3 { // found
		return plan.MinimumGracePeriod // found
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil { // found
		return *s
	}
	return plan.ContainerGrace(pod, k.Container, k.Trigger).Seconds // found
}

func followed(k plan.Kill, limit int64) int64 {
	left := k.Grace.Seconds
	rest := int32(left - 1)
	var given = &rest
	if *given > 3 { // found
		return min(left, limit) // found
	}
	shown := left
	if other := limit; other > 3 {
		return other
	}
	return shown + max(limit, 2)
}

type kill struct{ left, limit, other int64 }

func kept(k *kill, decided plan.Kill) int64 {
	k.left = decided.Grace.Seconds
	if k.other > 3 {
		return k.other
	}
	return min(k.left, k.limit) // found
}

func carriedOn(k *kill, rec v1alpha1.KillGrace) *kill {
	if rec.Seconds > k.other { // found
		return &kill{limit: rec.Seconds}
	}
	if k.limit > 1 { // found
		return nil
	}
	return k
}

func compared(k plan.Kill, limit int64) int {
	return cmp.Compare(k.Grace.Seconds, limit) // found
}

func decided(k plan.Kill) (int64, *corev1.LifecycleHandler) {
	if hook := k.PreStopWithin(k.Grace.Seconds); hook != nil { // found
		return k.Stop(1).TimeoutSeconds, hook // found
	}
	timeout := plan.StopTimeout                  // found
	return timeout(k.Grace.Seconds), k.PreStop() // found
}

func hook(c *corev1.Container, s *plan.ContainerStatus) *corev1.LifecycleHandler {
	if l := c.Lifecycle; l != nil {
		return l.PreStop // found
	}
	return s.Recorded.PreStop // found
}

func stop(ctx context.Context, s stopper, decided plan.Stop) error {
	if err := s.StopContainer(ctx, decided.ID, decided.TimeoutSeconds); err != nil { // found
		return err
	}
	return s.StopContainer(ctx, decided.ID, 7) // found
}

func stopLater(s stopper) func(ctx context.Context, id string, timeoutSeconds int64) error {
	return s.StopContainer // found
}
