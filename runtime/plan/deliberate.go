// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// CheckBackoff decides whether a container of a sync has to wait, as
// BackoffPolicy.Check does, and returns the entry to keep under key: nil for none.
// A back-off belongs to the definition that crashed: where the newest instance was
// killed, or has been replaced in the template, on purpose, the container starts at
// once and its entry goes.
func CheckBackoff(r *SyncRequest, c *corev1.Container, d Differences, now time.Time) (key string, next *Backoff, wait *Wait) {
	key = BackoffKey(r.Pod, c)
	if d.ForgiveDeliberate && deliberatelyEnded(r, c) {
		return key, nil, nil
	}
	next, wait = r.BackoffPolicy.Check(r.Pod, c, r.Backoff[key], r.Observed, now)
	return key, next, wait
}

// BackoffAfterRestart returns the entries of back-off that count after a restart of the
// agent, of those that were kept.
func BackoffAfterRestart(kept map[string]*Backoff, d Differences) map[string]*Backoff {
	if !d.KeepBackoff {
		return map[string]*Backoff{}
	}
	return kept
}

// deliberatelyEnded is whether the newest instance of a container was ended by a
// change of its definition, its resources or the restart that was requested: by this
// sync, or by an earlier one, so that its record differs from the template.
func deliberatelyEnded(r *SyncRequest, c *corev1.Container) bool {
	newest := r.Observed.Current(c.Name)
	if newest == nil {
		return false
	}
	if slices.ContainsFunc(r.Actions.ContainersToKill, func(k Kill) bool { return k.ID == newest.ID && deliberate(k.Trigger) }) {
		return true
	}
	requested := r.Pod.Annotations[v1alpha1.AnnotationRestartedAt]
	return Redefined(c, newest) || newest.Hash != "" && requested != "" && requested != newest.Recorded.RestartedAt
}

// deliberate is whether a kill was asked for by whoever changed the template.
// Everything else would make a container that fails restart without a pause.
func deliberate(trigger v1alpha1.KillTrigger) bool {
	switch trigger {
	case v1alpha1.TriggerDefinitionChanged, v1alpha1.TriggerRestartRequested, v1alpha1.TriggerResizeRequired:
		return true
	default:
		return false
	}
}
