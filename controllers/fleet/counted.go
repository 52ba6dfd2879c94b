// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// shownKills are what the recentKills of a status say of the kills that it counts, also of
// those that it had and shows no longer: a record goes when it is its node's oldest there.
type shownKills struct {
	phases map[KillKey]v1alpha1.KillPhase
	// oldest is when the oldest kill of each node began, by its own clock, and oldestOfAll
	// that by which all are ordered.
	oldest      map[string]time.Time
	oldestOfAll time.Time
	// last is when the last attempt at each target began.
	last map[target]time.Time
	full bool
}

func memoryOf(recent []v1alpha1.NodeKillRecord) *shownKills {
	m := &shownKills{
		phases: make(map[KillKey]v1alpha1.KillPhase, len(recent)), oldest: map[string]time.Time{}, last: map[target]time.Time{},
		full: len(recent) >= maxRecentKills,
	}
	for i := range recent {
		r := &recent[i]
		m.phases[keyOf(r)] = r.Phase
		if at, ok := m.oldest[r.NodeName]; !ok || r.StartTime.Time.Before(at) {
			m.oldest[r.NodeName] = r.StartTime.Time
		}
		if r.StartTime.After(m.last[targetOf(r)]) {
			m.last[targetOf(r)] = r.StartTime.Time
		}
		if at := orderTime(r); i == 0 || at.Before(m.oldestOfAll) {
			m.oldestOfAll = at
		}
	}
	return m
}

// counts reports whether the end of a kill is counted, as far as is known of one that was
// shown and went.
func (m *shownKills) counts(r *v1alpha1.NodeKillRecord, since time.Time) bool {
	if phase, shown := m.phases[keyOf(r)]; shown {
		return phase == v1alpha1.KillPhaseDone
	}
	oldest, hasNode := m.oldest[r.NodeName]
	switch {
	case endTime(r).After(since):
		return false
	case r.Outcome == v1alpha1.KillOutcomeFailed && r.ContainerID != "" && m.last[targetOf(r)].After(r.StartTime.Time):
		return true // it was followed by another attempt
	case !m.full:
		return false // nothing was dropped yet
	case hasNode:
		return !r.StartTime.After(oldest)
	}
	return !orderTime(r).After(m.oldestOfAll)
}
