// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// maxRecentKills is how many kills of the fleet a ManagedWorkload shows.
const maxRecentKills = 20

// killKey identifies a kill in the fleet: an ID is unique on its node.
type killKey struct{ node, id string }

func keyOf(r *v1alpha1.NodeKillRecord) killKey { return killKey{r.NodeName, r.ID} }

// killOf is a record of a NodeWorkload as a ManagedWorkload shows it.
func killOf(nw *v1alpha1.NodeWorkload, r *v1alpha1.KillRecord) v1alpha1.NodeKillRecord {
	return v1alpha1.NodeKillRecord{NodeName: nw.Spec.NodeName, NodeWorkload: nw.Name, KillRecord: *r.DeepCopy()}
}

// MergeKills adds records to recent, newest first, and keeps the last 20. Of two
// records of one kill the one that is further on stays, and of failed attempts at
// one the last.
// now is the manager's time.
func MergeKills(recent, records []v1alpha1.NodeKillRecord, now time.Time) []v1alpha1.NodeKillRecord {
	byKey := make(map[killKey]v1alpha1.NodeKillRecord, len(recent)+len(records))
	for _, list := range [][]v1alpha1.NodeKillRecord{recent, records} {
		for i := range list {
			key := keyOf(&list[i])
			if known, ok := byKey[key]; !ok || supersedes(&list[i].KillRecord, &known.KillRecord) {
				r := list[i]
				if known.ObservedTime != nil {
					r.ObservedTime = known.ObservedTime
				}
				byKey[key] = withObservedTime(r, now)
			}
		}
	}
	if len(byKey) == 0 {
		return nil
	}
	merged := make([]v1alpha1.NodeKillRecord, 0, len(byKey))
	for _, r := range byKey {
		merged = append(merged, r)
	}
	slices.SortFunc(merged, newestFirst)
	merged = withoutRetried(merged)
	return merged[:min(len(merged), maxRecentKills)]
}

// withObservedTime is r as seen at a time, if its own time is later and it was not seen
// before: a clock that is ahead would keep it the newest for good. Of a record that may have
// been there for long that is all that can be said: the ledger sees which are new.
func withObservedTime(r v1alpha1.NodeKillRecord, at time.Time) v1alpha1.NodeKillRecord {
	if r.ObservedTime == nil && r.StartTime.After(at.Add(clockTolerance)) {
		r.ObservedTime = new(metav1.NewMicroTime(at))
	}
	return r
}

// orderTime is the time by which a record is ordered.
func orderTime(r *v1alpha1.NodeKillRecord) time.Time {
	if r.ObservedTime != nil {
		return r.ObservedTime.Time
	}
	return r.StartTime.Time
}

func newestFirst(a, b v1alpha1.NodeKillRecord) int {
	return cmp.Or(
		orderTime(&b).Compare(orderTime(&a)),
		b.StartTime.Compare(a.StartTime.Time),
		cmp.Compare(a.NodeName, b.NodeName),
		cmp.Compare(a.ID, b.ID),
	)
}

// supersedes reports whether a says more about a kill than the record known: words
// that come late do not undo its end.
func supersedes(a, known *v1alpha1.KillRecord) bool {
	return known.Phase != v1alpha1.KillPhaseDone || a.Phase == v1alpha1.KillPhaseDone
}

// withoutRetried drops, from records that are newest first, attempts that failed
// and were followed by another: a runtime that carries no kill out would push
// everything else out.
func withoutRetried(records []v1alpha1.NodeKillRecord) []v1alpha1.NodeKillRecord {
	type target struct {
		node, containerID string
		trigger           v1alpha1.KillTrigger
	}
	seen := map[target]bool{}
	return slices.DeleteFunc(records, func(r v1alpha1.NodeKillRecord) bool {
		t := target{r.NodeName, r.ContainerID, r.Trigger}
		retried := seen[t] && r.Outcome == v1alpha1.KillOutcomeFailed
		seen[t] = r.ContainerID != ""
		return retried
	})
}

// NewlyForced counts the records of kills that the runtime had to force and that were
// not counted before: that recent does not know as ended. recent shows the newest only,
// so what is older than all it shows counts when it ended after since, which is when
// this manager began.
func NewlyForced(recent, records []v1alpha1.NodeKillRecord, since time.Time) int32 {
	shown := make(map[killKey]v1alpha1.KillPhase, len(recent))
	var oldest time.Time
	for i := range recent {
		shown[keyOf(&recent[i])] = recent[i].Phase
		if at := orderTime(&recent[i]); i == 0 || at.Before(oldest) {
			oldest = at
		}
	}
	var n int32
	for i := range records {
		r := &records[i]
		if r.Outcome != v1alpha1.KillOutcomeForced || r.Phase != v1alpha1.KillPhaseDone {
			continue
		}
		phase, isShown := shown[keyOf(r)]
		switch {
		case isShown && phase == v1alpha1.KillPhaseDone:
		case isShown, len(recent) < maxRecentKills, orderTime(r).After(oldest), endTime(r).After(since):
			n++
		}
	}
	return n
}

// endTime is when a kill ended, as far as the clock of its node can be believed.
func endTime(r *v1alpha1.NodeKillRecord) time.Time {
	if r.ObservedTime == nil && r.FinishTime != nil {
		return r.FinishTime.Time
	}
	return orderTime(r)
}

// NewlyDone are the records, oldest first, of kills that have ended and that
// recent does not know as ended. Kills that ended before since were reported by an
// earlier run of the manager.
func NewlyDone(recent, records []v1alpha1.NodeKillRecord, since time.Time) []v1alpha1.NodeKillRecord {
	known := make(map[killKey]bool, len(recent))
	for i := range recent {
		known[keyOf(&recent[i])] = recent[i].Phase == v1alpha1.KillPhaseDone
	}
	var done []v1alpha1.NodeKillRecord
	for i := range records {
		r := &records[i]
		_, shown := known[keyOf(r)]
		if r.Phase != v1alpha1.KillPhaseDone || known[keyOf(r)] {
			continue
		}
		if !shown && r.FinishTime != nil && r.FinishTime.Time.Before(since) && endTime(r).Before(since) {
			continue
		}
		done = append(done, *r)
	}
	slices.SortFunc(done, func(a, b v1alpha1.NodeKillRecord) int { return newestFirst(b, a) })
	return done
}

// KillsDue reports whether changed kills are written now, when nothing else of the
// status changes, or else after which time.
func KillsDue(now, lastWrite time.Time, interval time.Duration) (bool, time.Duration) {
	wait := lastWrite.Add(interval).Sub(now)
	return wait <= 0, max(wait, 0)
}
