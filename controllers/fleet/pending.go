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
	// Records are 20 at most: no status shows more.
	Records []v1alpha1.NodeKillRecord
	// Counted are those of them that count elsewhere: the object took over a NodeWorkload that
	// had them already.
	Counted map[KillKey]bool
	// Further are other ones that have ended, without their texts: they count.
	Further []v1alpha1.NodeKillRecord
	// Uncounted are how many more have ended.
	Uncounted map[Ending]int
}

// Ending is how a kill ended, and what asked for it.
type Ending struct {
	Trigger v1alpha1.KillTrigger
	Outcome v1alpha1.KillOutcome
}

func endingOf(r *v1alpha1.NodeKillRecord) Ending { return Ending{r.Trigger, r.Outcome} }

// Empty reports whether there is nothing.
func (p Pending) Empty() bool {
	return len(p.Records) == 0 && len(p.Further) == 0 && len(p.Uncounted) == 0
}

// Ended is how many of the uncounted have ended, and how many of them the runtime had to force.
func (p Pending) Ended() (all, forced int32) {
	for e, count := range p.Uncounted {
		n := int32(min(count, 1<<30))
		all += n
		if e.Outcome == v1alpha1.KillOutcomeForced {
			forced += n
		}
	}
	return all, forced
}

// pending is Pending as it is collected.
type pending struct {
	records   map[KillKey]sighted
	further   []sighted
	uncounted map[Ending]int
}

// sighted is a record of a NodeWorkload.
type sighted struct {
	v1alpha1.NodeKillRecord
	// made is when the NodeWorkload was, and counted that the kill counted before the
	// NodeWorkload belonged to this object.
	made    time.Time
	counted bool
}

// countsFor reports whether the kill is one of an object that was made at a time.
func (s *sighted) countsFor(born time.Time) bool {
	return !s.counted && (!s.made.Before(born) || !endTime(&s.NodeKillRecord).Before(born))
}

func (p *pending) any() bool {
	return len(p.records) > 0 || len(p.further) > 0 || len(p.uncounted) > 0
}

func (p *pending) known(key KillKey) v1alpha1.NodeKillRecord { return p.records[key].NodeKillRecord }

// of is what is pending for an object that was made at a time.
func (p *pending) of(born time.Time) Pending {
	all := Pending{Counted: map[KillKey]bool{}, Uncounted: maps.Clone(p.uncounted)}
	take := func(s sighted) v1alpha1.NodeKillRecord {
		if !s.countsFor(born) {
			all.Counted[keyOf(&s.NodeKillRecord)] = true
		}
		return s.NodeKillRecord
	}
	for _, s := range p.records {
		all.Records = append(all.Records, take(s))
	}
	for _, s := range p.further {
		all.Further = append(all.Further, take(s))
	}
	return all
}

// keep adds a record. Where that makes too many, the one that a status would drop first goes
// to the further ones, if it has ended: one that has not is reported again at its end.
func (p *pending) keep(r sighted, since time.Time) {
	if p.records == nil {
		p.records = map[KillKey]sighted{}
	}
	p.records[keyOf(&r.NodeKillRecord)] = r
	if len(p.records) <= maxRecentKills {
		return
	}
	key := p.last()
	out := p.records[key]
	delete(p.records, key)
	if out.Phase == v1alpha1.KillPhaseDone && !out.counted {
		p.shorten(out, since)
	}
}

// last is the record that a status would drop first: a failed attempt that was followed by
// another, or the oldest of the node that has most.
func (p *pending) last() KillKey {
	all := make([]v1alpha1.NodeKillRecord, 0, len(p.records))
	failed := false
	for _, r := range p.records {
		all = append(all, r.NodeKillRecord)
		failed = failed || r.Outcome == v1alpha1.KillOutcomeFailed
	}
	if failed {
		slices.SortFunc(all, newestFirst)
		shown := withoutRetried(slices.Clone(all))
		for i := range all {
			if i >= len(shown) || keyOf(&all[i]) != keyOf(&shown[i]) {
				return keyOf(&all[i])
			}
		}
	}
	return keyOf(&all[surplus(all)])
}

// shorten keeps of a kill that has ended what it counts by. Above maxFurther only a number
// is kept, of those that ended in this manager's time.
func (p *pending) shorten(r sighted, since time.Time) {
	if len(p.further) >= maxFurther {
		if endTime(&r.NodeKillRecord).After(since) {
			if p.uncounted == nil {
				p.uncounted = map[Ending]int{}
			}
			p.uncounted[endingOf(&r.NodeKillRecord)]++
		}
		return
	}
	p.further = append(p.further, sighted{made: r.made, NodeKillRecord: v1alpha1.NodeKillRecord{
		NodeName: r.NodeName, NodeWorkload: r.NodeWorkload, ObservedTime: r.ObservedTime,
		KillRecord: v1alpha1.KillRecord{
			ID: r.ID, Container: r.Container, ContainerID: r.ContainerID, Trigger: r.Trigger, Phase: r.Phase, Outcome: r.Outcome,
			StartTime: r.StartTime, FinishTime: r.FinishTime,
		},
	}})
}

// settle forgets further and uncounted kills that were taken account of.
func (p *pending) settle(settled Pending) {
	gone := make(map[KillKey]bool, len(settled.Further))
	for i := range settled.Further {
		gone[keyOf(&settled.Further[i])] = true
	}
	p.further = slices.DeleteFunc(p.further, func(r sighted) bool { return gone[keyOf(&r.NodeKillRecord)] })
	if len(p.further) == 0 {
		p.further = nil
	}
	for e, n := range settled.Uncounted {
		if p.uncounted[e] -= n; p.uncounted[e] <= 0 {
			delete(p.uncounted, e)
		}
	}
}

// count counts what has ended since a time: there is no status left to wait for.
func (p *pending) count(since time.Time) {
	kept := slices.AppendSeq(slices.Clone(p.further), maps.Values(p.records))
	for i := range kept {
		r := &kept[i]
		if r.Phase == v1alpha1.KillPhaseDone && !r.counted && endTime(&r.NodeKillRecord).After(since) {
			CountKills(endingOf(&r.NodeKillRecord), 1)
		}
	}
	for ending, n := range p.uncounted {
		CountKills(ending, n)
	}
}
