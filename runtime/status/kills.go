// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Bounds on kill records: how many are kept, beside the newest of each container and
// trigger, and how many the API takes.
const (
	keptKills = 10
	maxKills  = 100
)

// AddKill returns the kill records with one added, or replaced if there is one with the
// same ID: those under way, then the others, each newest first; 10 in all. A kill under
// way is never dropped, nor is the newest one of a container or of a trigger: a crash loop
// does not push the interesting record out, and the end of a large pod is shown whole.
// The order is that of the records' sequence, because clocks are set; a new record without
// one gets the next. The record's summary is set if it is empty, and its texts are cut to
// what the API takes. The given list is not changed.
func AddKill(kills []v1alpha1.KillRecord, r v1alpha1.KillRecord) []v1alpha1.KillRecord {
	r = boundKill(r)
	added := slices.Clone(kills)
	if i := slices.IndexFunc(added, func(k v1alpha1.KillRecord) bool { return k.ID == r.ID }); i >= 0 {
		r.Sequence = added[i].Sequence
		added[i] = r
	} else {
		if r.Sequence == 0 {
			r.Sequence = nextSequence(kills)
		}
		added = append(added, r)
	}
	slices.SortStableFunc(added, newestFirst)
	kept := dropOldKills(added)
	slices.SortStableFunc(kept, underWayFirst)
	return kept
}

// nextSequence is the number of the kill that begins after the given ones.
func nextSequence(kills []v1alpha1.KillRecord) int64 {
	last := int64(0)
	for i := range kills {
		last = max(last, kills[i].Sequence)
	}
	return last + 1
}

// newestFirst orders records by their sequence.
func newestFirst(a, b v1alpha1.KillRecord) int { return cmp.Compare(b.Sequence, a.Sequence) }

func underWayFirst(a, b v1alpha1.KillRecord) int {
	switch {
	case isUnderWay(a) == isUnderWay(b):
		return 0
	case isUnderWay(a):
		return -1
	}
	return 1
}

// dropOldKills drops the oldest finished records above the bounds, of records that are
// newest first.
func dropOldKills(kills []v1alpha1.KillRecord) []v1alpha1.KillRecord {
	must := newestOfEach(kills)
	room := keptKills
	for i := range must {
		if must[i] {
			room--
		}
	}
	kept := make([]v1alpha1.KillRecord, 0, len(kills))
	for i := range kills {
		if !must[i] {
			room--
		}
		if must[i] || room >= 0 {
			kept = append(kept, kills[i])
		}
	}
	for i := len(kept) - 1; i > 0 && len(kept) > maxKills; i-- {
		if !isUnderWay(kept[i]) {
			kept = slices.Delete(kept, i, i+1)
		}
	}
	return kept
}

// newestOfEach marks the records that are under way, and the newest of each container and
// of each trigger.
func newestOfEach(kills []v1alpha1.KillRecord) []bool {
	marked := make([]bool, len(kills))
	containers, triggers := map[string]bool{}, map[v1alpha1.KillTrigger]bool{}
	for i := range kills {
		k := &kills[i]
		marked[i] = isUnderWay(*k) || !containers[k.Container] || !triggers[k.Trigger]
		containers[k.Container], triggers[k.Trigger] = true, true
	}
	return marked
}

func isUnderWay(k v1alpha1.KillRecord) bool { return k.Phase != v1alpha1.KillPhaseDone }

// boundKill returns a record of its own with a summary, texts without what a terminal takes
// for a command and cut to the bounds of the API, and times to the microseconds it stores.
func boundKill(r v1alpha1.KillRecord) v1alpha1.KillRecord {
	r = *r.DeepCopy()
	if r.Summary == "" {
		r.Summary = KillSummary(r)
	}
	r.Summary = shown(r.Summary, maxSummary)
	r.ID = truncateRunes(r.ID, 128)
	r.Container = truncateRunes(r.Container, 63)
	r.ContainerID = truncateRunes(r.ContainerID, 256)
	r.RequestedBy = shown(r.RequestedBy, 256)
	r.Message = shown(r.Message, 1024)
	r.StopSignal = shown(r.StopSignal, 32)
	r.Error = shown(r.Error, 1024)
	r.Reason = shown(r.Reason, 256)
	for _, t := range []*metav1.MicroTime{&r.StartTime, r.StopTime, r.FinishTime, r.Grace.Deadline} {
		if t != nil {
			t.Time = t.Truncate(time.Microsecond)
		}
	}
	return r
}
