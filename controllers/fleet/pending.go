// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// maxFurther is how many records of kills that have ended are kept in short beside the 20
// that a status can show.
const maxFurther = 200

// Pending are kills that a status does not take account of yet.
type Pending struct {
	// Records are the newest, at most 20: no status shows more.
	Records []v1alpha1.NodeKillRecord
	// Further are older ones that have ended, without their texts: they count.
	Further []v1alpha1.NodeKillRecord
	// Uncounted are how many more have ended.
	Uncounted map[Ending]int
}

// Ending is how a kill ended, and what asked for it.
type Ending struct {
	Trigger v1alpha1.KillTrigger
	Outcome v1alpha1.KillOutcome
}

// Empty reports whether there is nothing.
func (p Pending) Empty() bool {
	return len(p.Records) == 0 && len(p.Further) == 0 && len(p.Uncounted) == 0
}

// Ended are the records that may have ended, the newest and the further ones.
func (p Pending) Ended() []v1alpha1.NodeKillRecord { return slices.Concat(p.Records, p.Further) }

// Forced is how many of the uncounted the runtime had to force.
func (p Pending) Forced() int32 {
	n := 0
	for e, count := range p.Uncounted {
		if e.Outcome == v1alpha1.KillOutcomeForced {
			n += count
		}
	}
	return int32(min(n, 1<<31-1))
}

// pending is Pending as it is collected.
type pending struct {
	records   map[killKey]v1alpha1.NodeKillRecord
	further   []v1alpha1.NodeKillRecord
	uncounted map[Ending]int
}

func (p *pending) any() bool {
	return len(p.records) > 0 || len(p.further) > 0 || len(p.uncounted) > 0
}

func (p *pending) known(key killKey) v1alpha1.NodeKillRecord { return p.records[key] }

// keep adds a record. Where that makes too many, the one that a status would show last goes
// to the further ones, if it has ended: one that has not is reported again at its end.
func (p *pending) keep(r v1alpha1.NodeKillRecord, since time.Time) {
	if p.records == nil {
		p.records = map[killKey]v1alpha1.NodeKillRecord{}
	}
	p.records[keyOf(&r)] = r
	if len(p.records) <= maxRecentKills {
		return
	}
	out := p.last()
	delete(p.records, keyOf(&out))
	if out.Phase == v1alpha1.KillPhaseDone {
		p.shorten(out, since)
	}
}

// last is the record that a status would drop first: a failed attempt that was followed by
// another, or the oldest.
func (p *pending) last() v1alpha1.NodeKillRecord {
	var oldest v1alpha1.NodeKillRecord
	first, failed := true, false
	for _, r := range p.records {
		if first || newestFirst(oldest, r) < 0 {
			oldest, first = r, false
		}
		failed = failed || r.Outcome == v1alpha1.KillOutcomeFailed
	}
	if !failed {
		return oldest
	}
	all := slices.SortedFunc(maps.Values(p.records), newestFirst)
	shown := withoutRetried(slices.Clone(all))
	for i := range all {
		if i >= len(shown) || keyOf(&all[i]) != keyOf(&shown[i]) {
			return all[i]
		}
	}
	return oldest
}

// shorten keeps of a kill that has ended what it counts by. Above maxFurther only a number
// is kept, of those that ended in this manager's time.
func (p *pending) shorten(r v1alpha1.NodeKillRecord, since time.Time) {
	if len(p.further) >= maxFurther {
		if endTime(&r).After(since) {
			if p.uncounted == nil {
				p.uncounted = map[Ending]int{}
			}
			p.uncounted[Ending{r.Trigger, r.Outcome}]++
		}
		return
	}
	p.further = append(p.further, v1alpha1.NodeKillRecord{
		NodeName: r.NodeName, NodeWorkload: r.NodeWorkload, ObservedTime: r.ObservedTime,
		KillRecord: v1alpha1.KillRecord{
			ID: r.ID, Container: r.Container, Trigger: r.Trigger, Phase: r.Phase, Outcome: r.Outcome,
			StartTime: r.StartTime, FinishTime: r.FinishTime,
		},
	})
}

// settle forgets further and uncounted kills that were taken account of.
func (p *pending) settle(settled Pending) {
	gone := make(map[killKey]bool, len(settled.Further))
	for i := range settled.Further {
		gone[keyOf(&settled.Further[i])] = true
	}
	p.further = slices.DeleteFunc(p.further, func(r v1alpha1.NodeKillRecord) bool { return gone[keyOf(&r)] })
	if len(p.further) == 0 {
		p.further = nil
	}
	for e, n := range settled.Uncounted {
		if p.uncounted[e] -= n; p.uncounted[e] <= 0 {
			delete(p.uncounted, e)
		}
	}
}
