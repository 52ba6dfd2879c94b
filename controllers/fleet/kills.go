// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/printable"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// maxRecentKills is how many kills of the fleet a ManagedWorkload shows.
const maxRecentKills = 20

// KillKey identifies a kill in the fleet: an ID is unique on its node.
type KillKey struct{ node, id string }

func keyOf(r *v1alpha1.NodeKillRecord) KillKey { return KillKey{r.NodeName, r.ID} }

// killOf is a record of a NodeWorkload as a ManagedWorkload shows it. What a node reports is its
// word: it may hold what no shim writes.
func killOf(nw *v1alpha1.NodeWorkload, r *v1alpha1.KillRecord) v1alpha1.NodeKillRecord {
	record := *r.DeepCopy()
	record.Summary = shown(printable.Line(record.Summary), maxKillSummary)
	record.RequestedBy = shown(printable.Line(record.RequestedBy), maxRequestedBy)
	record.Message = shown(printable.Text(record.Message), maxKillText)
	record.Error = shown(printable.Text(record.Error), maxKillText)
	record.Reason = shown(printable.Line(record.Reason), maxRequestedBy)
	record.ID = shown(printable.Line(record.ID), maxKillID)
	record.Container = shown(printable.Line(record.Container), maxContainerName)
	record.ContainerID = shown(printable.Line(record.ContainerID), maxRequestedBy)
	record.StopSignal = shown(printable.Line(record.StopSignal), maxStopSignal)
	for i, field := range record.ChangedFields {
		record.ChangedFields[i] = shown(printable.Line(field), maxChangedField)
	}
	return v1alpha1.NodeKillRecord{NodeName: nw.Spec.NodeName, NodeWorkload: nw.Name, KillRecord: record}
}

// Bounds of the API on texts of a record, in characters: replacing a character makes a text
// longer.
const (
	maxKillSummary = 512
	maxRequestedBy = 256
	maxKillText    = 1024

	maxKillID        = 128
	maxContainerName = 63
	maxStopSignal    = 32
	maxChangedField  = 64
)

func shown(text string, characters int) string {
	if len(text) <= characters {
		return text
	}
	if runes := []rune(text); len(runes) > characters {
		return string(runes[:characters])
	}
	return text
}

// MergeKills adds records to recent, newest first, and keeps 20: where there are more, the
// node that has most gives up its oldest. Of two records of one kill the one that is further
// on stays, and of failed attempts at one the last.
// now is the manager's time.
func MergeKills(recent, records []v1alpha1.NodeKillRecord, now time.Time) []v1alpha1.NodeKillRecord {
	byKey := make(map[KillKey]v1alpha1.NodeKillRecord, len(recent)+len(records))
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
	for len(merged) > maxRecentKills {
		out := surplus(merged)
		merged = slices.Delete(merged, out, out+1)
	}
	return merged
}

// surplus is where among records the one is that goes first: the oldest of the nodes that have
// most. So a node that reports many displaces its own.
func surplus(records []v1alpha1.NodeKillRecord) int {
	out, most := 0, 0
	for i := range records {
		n := 0
		for j := range records {
			if records[j].NodeName == records[i].NodeName {
				n++
			}
		}
		if n > most || n == most && newestFirst(records[out], records[i]) < 0 {
			out, most = i, n
		}
	}
	return out
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

// target is what a kill is aimed at, and why.
type target struct {
	node, containerID string
	trigger           v1alpha1.KillTrigger
}

func targetOf(r *v1alpha1.NodeKillRecord) target {
	return target{r.NodeName, r.ContainerID, r.Trigger}
}

// withoutRetried drops, from records that are newest first, attempts that failed
// and were followed by another: a runtime that carries no kill out would push
// everything else out.
func withoutRetried(records []v1alpha1.NodeKillRecord) []v1alpha1.NodeKillRecord {
	seen := map[target]bool{}
	return slices.DeleteFunc(records, func(r v1alpha1.NodeKillRecord) bool {
		retried := seen[targetOf(&r)] && r.Outcome == v1alpha1.KillOutcomeFailed
		seen[targetOf(&r)] = r.ContainerID != ""
		return retried
	})
}

// NewlyEnded are the records, oldest first, of kills that have ended and that the status with
// recent does not count yet. counted are those that count elsewhere, and since is when this
// manager began: what ended later is new if recent does not have it.
func NewlyEnded(recent, records []v1alpha1.NodeKillRecord, counted map[KillKey]bool, since time.Time) []v1alpha1.NodeKillRecord {
	before := memoryOf(recent)
	var ended []v1alpha1.NodeKillRecord
	for i := range records {
		r := &records[i]
		if r.Phase == v1alpha1.KillPhaseDone && !counted[keyOf(r)] && !before.counts(r, since) {
			ended = append(ended, *r)
		}
	}
	slices.SortFunc(ended, func(a, b v1alpha1.NodeKillRecord) int { return newestFirst(b, a) })
	return ended
}

// Forced is how many of the records are of kills that the runtime had to force.
func Forced(records []v1alpha1.NodeKillRecord) int32 {
	var n int32
	for i := range records {
		if records[i].Outcome == v1alpha1.KillOutcomeForced {
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

// KillsDue reports whether changed kills are written now, when nothing else of the
// status changes, or else after which time.
func KillsDue(now, lastWrite time.Time, interval time.Duration) (bool, time.Duration) {
	wait := lastWrite.Add(interval).Sub(now)
	return wait <= 0, max(wait, 0)
}
