// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// MinimumGracePeriod is the least that reaches StopContainer, in seconds.
// (kubelet kuberuntime_container.go:minimumGracePeriodInSeconds)
const MinimumGracePeriod int64 = 2

// Grace is a grace period in seconds and where it comes from.
type Grace struct {
	Seconds int64
	Source  v1alpha1.GraceSource
}

// ContainerGrace returns the grace period of a kill before an override and
// before the minimum: the deletion's, else for a probe's kill the probe's own,
// else the pod's, else the minimum. A probe's is looked at only if the pod has
// one. c may be nil when only the pod is known.
// (kubelet kuberuntime_container.go:setTerminationGracePeriod)
func ContainerGrace(pod *corev1.Pod, c *corev1.Container, trigger v1alpha1.KillTrigger) Grace {
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		return Grace{Seconds: *s, Source: v1alpha1.GraceSourceDeletion}
	}
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return Grace{Seconds: MinimumGracePeriod, Source: v1alpha1.GraceSourceMinimum}
	}
	if s := probeGrace(c, trigger); s != nil {
		return Grace{Seconds: *s, Source: v1alpha1.GraceSourceProbe}
	}
	return Grace{Seconds: *pod.Spec.TerminationGracePeriodSeconds, Source: v1alpha1.GraceSourcePod}
}

// probeGrace returns the grace period of the probe that asks for the kill, nil
// if it has none or if no probe asks.
func probeGrace(c *corev1.Container, trigger v1alpha1.KillTrigger) *int64 {
	var probe *corev1.Probe
	switch {
	case c == nil:
	case trigger == v1alpha1.TriggerStartupProbe:
		probe = c.StartupProbe
	case trigger == v1alpha1.TriggerLivenessProbe:
		probe = c.LivenessProbe
	}
	if probe == nil {
		return nil
	}
	return probe.TerminationGracePeriodSeconds
}

// StopTimeout returns what StopContainer is given, in seconds, when this much
// of the grace period is left. It is the last step of every kill.
// (kubelet kuberuntime_container.go:killContainer)
func StopTimeout(left int64) int64 {
	return max(left, MinimumGracePeriod)
}

// IsOver returns whether a grace period has passed that began so long ago.
func (g Grace) IsOver(since time.Duration) bool {
	return since >= seconds(StopTimeout(g.Seconds))
}

// TerminationGrace returns the grace period of a pod's termination in seconds,
// at least 1. It starts from the deletion's and may only shrink: current is
// what the termination under way has (0 if there is none), override what another
// part asks for, podGrace the template's. shortened is whether a termination
// that is under way gets less time than it had (or, having less than 1 s, more).
// (kubelet pod_workers.go:calculateEffectiveGracePeriod)
func TerminationGrace(current int64, deletion, override, podGrace *int64) (seconds int64, shortened bool) {
	seconds = current
	asked := false
	for _, wish := range []*int64{deletion, override} {
		if wish != nil && (seconds == 0 || *wish < seconds) {
			seconds, asked = *wish, true
		}
	}
	if !asked && seconds == 0 && podGrace != nil {
		seconds = *podGrace
	}
	seconds = max(seconds, 1)
	return seconds, current != 0 && current != seconds
}

// Left returns what is left of a grace period of which a shortening leaves limit, both
// in seconds: it never adds to it.
func Left(left, limit int64) int64 { return min(left, limit) }

// ShortenedGrace returns what a kill under way has after it was shortened to so
// many seconds since its begin: only a deletion shortens one.
func ShortenedGrace(seconds int64) Grace {
	return Grace{Seconds: seconds, Source: v1alpha1.GraceSourceDeletion}
}
