// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// waits are since when nodes wait. A roll-out that was not looked at waits as before.
func (s *scope) waits() rollout.Waits {
	if s.rolling == nil {
		return s.memory.waits
	}
	return s.memory.waits.Next(s.rolling.waiting(), s.before.UpdateRevision != "", s.now)
}

// announceHolds says once when a person pauses a roll-out or lets it continue, and once for
// each revision that the strategy keeps nodes from it.
func (r *Reconciler) announceHolds(mw *v1alpha1.ManagedWorkload, old *v1alpha1.ManagedWorkloadStatus, s *scope, f *facts) {
	if s.rolling == nil || f.deleting {
		return
	}
	first, waiting := s.memory.waits == nil, s.rolling.waiting()
	was, is := s.wasPaused(old), mw.Spec.Paused && waiting[rollout.WaitPaused] > 0
	switch {
	case is && !was:
		r.recorder.Eventf(mw, corev1.EventTypeNormal, eventPaused, "Paused revision %s: spec.paused keeps %s from it", f.update, nodes(waiting[rollout.WaitPaused]))
	case was && !mw.Spec.Paused:
		r.recorder.Eventf(mw, corev1.EventTypeNormal, eventResumed, "Resumed revision %s", f.update)
	}
	known := first && old.UpdateRevision == f.update // by the manager before this one
	holds := map[rollout.Reason]string{}
	for _, reason := range []rollout.Reason{rollout.WaitPartition, rollout.WaitNodeSelector, rollout.WaitOnDelete} {
		switch n := waiting[reason]; {
		case s.memory.announced[reason] == f.update:
			holds[reason] = f.update
		case n > 0:
			holds[reason] = f.update
			if !known {
				r.recorder.Eventf(mw, corev1.EventTypeNormal, eventHeld, "Held revision %s from %s (%s): %s", f.update, nodes(n), reason, names(s.rolling.waitingFor(reason)))
			}
		}
	}
	s.memory.announced, s.memory.waits = holds, f.waits
	s.memory.paused = is || was && mw.Spec.Paused
}

// wasPaused reports whether an event said that the roll-out is paused, and none since that it
// continues. A manager that has just begun goes by the status.
func (s *scope) wasPaused(old *v1alpha1.ManagedWorkloadStatus) bool {
	if s.memory.waits != nil {
		return s.memory.paused
	}
	ready := meta.FindStatusCondition(old.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == reasonPaused
}

// waitingFor are the nodes that wait for a reason, by name.
func (g *rolling) waitingFor(reason rollout.Reason) []string {
	var list []string
	for i, why := range g.batch.Waiting {
		if why == reason {
			list = append(list, g.in.Nodes[i].Name)
		}
	}
	slices.Sort(list)
	return list
}
