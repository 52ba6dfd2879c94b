// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// CheckBackoff decides whether a container of a sync has to wait, as
// BackoffPolicy.Check does, and returns the entry to keep under key: nil for none.
// A back-off belongs to the definition that crashed: where the newest instance was
// killed, or has been replaced in the template, on purpose, the container starts at
// once and its entry goes. Where a kill did it, the entry says so until another
// instance has ended: the start may fail, and is tried again. What has passed since the
// last restart and the exit is counted on the time since boot, where it is known.
func CheckBackoff(r *SyncRequest, c *corev1.Container, d Differences, now Moment) (key string, next *Backoff, wait *Wait) {
	key = BackoffKey(r.Pod, c)
	entry := r.Backoff[key]
	if d.ForgiveDeliberate {
		if id := deliberatelyKilled(r, c, entry); id != "" {
			forgiven := &Backoff{Current: r.BackoffPolicy.orDefault().Base, LastUpdate: now.Wall, Forgiven: id}
			return key, forgiven.noted("", now.Wall, now), nil
		}
		if deliberatelyReplaced(r, c) {
			return key, nil, nil
		}
		if entry != nil && entry.Forgiven != "" {
			entry = nil
		}
	}
	observed := entry.exitInPresent(r.Observed, c.Name, now)
	exited := newestExited(observed, c.Name)
	if exited == nil {
		return key, entry, nil
	}
	next, wait = r.BackoffPolicy.Check(r.Pod, c, entry.present(now), observed, now.Wall)
	exitedAt := exited.FinishedAt
	if wait != nil {
		exitedAt = wait.Until.Add(-wait.Current)
	}
	return key, next.noted(exited.ID, exitedAt, now), wait
}

// BackoffAfterRestart returns the entries of back-off that count after a restart of the
// agent, of those that were kept.
func BackoffAfterRestart(kept map[string]*Backoff, d Differences) map[string]*Backoff {
	if !d.KeepBackoff {
		return map[string]*Backoff{}
	}
	return kept
}

// deliberatelyKilled returns the newest instance of a container if this sync kills it
// on purpose, or the newest that has exited if an earlier sync did; empty if neither.
func deliberatelyKilled(r *SyncRequest, c *corev1.Container, entry *Backoff) string {
	newest := r.Observed.Current(c.Name)
	if newest == nil {
		return ""
	}
	if r.forgives(newest.ID) {
		return newest.ID
	}
	if slices.ContainsFunc(r.Actions.ContainersToKill, func(k Kill) bool { return k.ID == newest.ID && deliberate(k.Trigger) }) {
		return newest.ID
	}
	if exited := newestExited(r.Observed, c.Name); entry != nil && exited != nil && exited.ID == entry.Forgiven {
		return exited.ID
	}
	return ""
}

// deliberatelyReplaced is whether the newest instance of a container was made from
// another definition than the present one, of itself or of its sandbox, or before the
// restart that was requested.
func deliberatelyReplaced(r *SyncRequest, c *corev1.Container) bool {
	newest := r.Observed.Current(c.Name)
	if newest == nil {
		return false
	}
	requested := r.Pod.Annotations[v1alpha1.AnnotationRestartedAt]
	return Redefined(c, newest) || newest.Hash != "" && requested != "" && requested != newest.Recorded.RestartedAt ||
		slices.ContainsFunc(r.Observed.Sandboxes, func(s SandboxStatus) bool {
			return s.ID == newest.SandboxID && differs(s.Hash, HashPod(r.Pod))
		})
}

// Replaces is whether a plan ends, or waits to end, an instance of another definition.
func (a *Actions) Replaces() bool {
	return a.Waiting() || a.KillsOnPurpose() || slices.ContainsFunc(a.ContainersToKill, func(k Kill) bool {
		return k.Trigger == v1alpha1.TriggerContainerRemoved
	})
}

// KillsOnPurpose is whether a plan kills what a deliberate change replaces.
func (a *Actions) KillsOnPurpose() bool {
	return a.Redefined || slices.ContainsFunc(a.ContainersToKill, func(k Kill) bool { return deliberate(k.Trigger) })
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
