// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"
	"time"
)

const (
	// beat is how far the last heartbeat may be before the end, with what a busy
	// machine adds.
	beat = 700 * time.Millisecond
	// clockTick is how far the start of a process, which the kernel keeps in ticks, may
	// be before the call that made it.
	clockTick = 20 * time.Millisecond
	// minimum is what a container has at least (the kubelet's minimum).
	minimum = 2 * time.Second
	// slack is what a kill may take beyond its grace period on a busy machine.
	slack = 6 * time.Second
	// reaction is what a request may take to become a kill on a busy machine.
	reaction = 30 * time.Second
	// patience is what a request may take at most to become a kill beside the faults
	// themselves, however many there are: a watch that was cut again and again waits
	// for up to a minute.
	patience = 2 * time.Minute
	// graceSlack is what a kill may take beyond its grace period where nothing fails,
	// on a busy machine. With the minimum it is less than the 5 s that a mistake
	// would have to stay unseen.
	graceSlack = 2500 * time.Millisecond
	// diskPatience is how long a kill waits for the disk.
	diskPatience = 2 * time.Second
	// saveRetry is how long after a fault of the disk a checkpoint is tried again.
	saveRetry = 30 * time.Second
	// resumption is what a shim needs, once it is ready, to take kills up again that
	// the one before it was carrying out.
	resumption = 4 * time.Second
	// nodeRecovery is how long a fault of the node has effects on a kill after its
	// end: one that failed is tried again after at most half as long again as it has
	// been failing.
	nodeRecovery = 8 * time.Second
	// apiRecovery is how long after a fault requests and reports wait: clients try
	// connections and watches again with back-off.
	apiRecovery = 15 * time.Second
	// starting is how long a runtime may take to end what it starts when the call
	// for it is cut off.
	starting = 2 * time.Second
	// makingSandbox is how long a runtime may take to make a sandbox.
	makingSandbox = 5 * time.Second
)

// The rules, in the order in which they are checked.
var rules = []struct {
	name  string
	check func(*judge)
}{
	{"two instances at once", (*judge).instances},
	{"kill not requested", (*judge).requested},
	{"kill not completed", (*judge).completed},
	{"less than its grace", (*judge).atLeast},
	{"more than its grace and the outage", (*judge).atMost},
	{"record disagrees with the journal", (*judge).records},
	{"left behind", (*judge).leftBehind},
}

// judge holds what the rules share.
type judge struct {
	*History
	byWorkload map[string][]*Life
	byID       map[string]*Life
	// byContainer are the calls about a container, by its ID.
	byContainer map[string][]*Call
	report      Report
	rule        string
}

// Check judges a history.
func Check(h *History) Report {
	j := &judge{
		History: h, byWorkload: map[string][]*Life{}, byID: map[string]*Life{}, byContainer: map[string][]*Call{},
		report: Report{Exempt: map[string]int{}},
	}
	for i := range h.Calls {
		c := &h.Calls[i]
		j.byContainer[c.Container] = append(j.byContainer[c.Container], c)
	}
	for i := range h.Lives {
		l := &h.Lives[i]
		j.byWorkload[l.Workload] = append(j.byWorkload[l.Workload], l)
		j.byID[l.ID] = l
		j.report.Lives++
		if l.killed() {
			j.report.Kills++
		}
	}
	for _, lives := range j.byWorkload {
		slices.SortFunc(lives, func(a, b *Life) int { return a.Start.Compare(b.Start) })
	}
	for _, rule := range rules {
		j.rule = rule.name
		rule.check(j)
	}
	return j.report
}

func (j *judge) violation(format string, args ...any) {
	j.report.Violations = append(j.report.Violations, Violation{Rule: j.rule, Text: fmt.Sprintf(format, args...)})
}

func (j *judge) exempt(reason string) { j.report.Exempt[reason]++ }

// lostShim reports that the runtime shim of the life's sandbox was killed before its
// end. Where nothing tells the sandbox, the pod's that was there counts.
func (j *judge) lostShim(l *Life) bool {
	sandbox := j.sandboxOf(l)
	return slices.ContainsFunc(j.Faults, func(f Fault) bool {
		switch {
		case !f.Killed || l.Last.Before(f.From.Add(-time.Second)):
			return false
		case sandbox != "":
			return sandbox == f.Sandbox
		default:
			return l.UID == f.Pod && !l.Start.After(f.To.Add(starting))
		}
	})
}

// cutStart reports that the life ended because the call that started it was cut off: the runtime then ends
// the container. On a busy machine the container may come up only after the cut: then no call may have ended it.
func (j *judge) cutStart(l *Life) bool {
	cut := j.startCutOff(l)
	if cut.IsZero() || !l.Asked().IsZero() {
		return false
	}
	if l.Start.After(cut) && !j.endedByCall(l, cut) {
		cut = l.Start
	}
	return l.Last.Before(cut.Add(starting))
}

// lost is when etcd was restored from a copy of before a request, zero if never.
func (j *judge) lost(r *Request) time.Time {
	for i := range j.Faults {
		if f := &j.Faults[i]; lostIn(f, r) {
			return f.From
		}
	}
	return time.Time{}
}

func lostIn(f *Fault, r *Request) bool {
	if f.Backup.IsZero() {
		return false
	}
	over := r.Acked
	if over.IsZero() {
		over = f.To
	}
	return !over.Before(f.Backup) && !r.From.After(f.To)
}

// rolledBack reports that a restored etcd asked for the kill: it has no NodeWorkload
// of the life's UID, or one with an earlier template than that which made the life.
func (j *judge) rolledBack(l *Life) bool {
	return slices.ContainsFunc(j.Faults, func(f Fault) bool {
		revision, has := f.Has[l.UID]
		return !l.began().Before(f.From) && (j.unknownIn(&f, l) || has && revision < l.Revision)
	})
}

// unknownIn reports that a restored etcd has no NodeWorkload of the life's UID, which
// the API had before.
func (j *judge) unknownIn(f *Fault, l *Life) bool {
	created, known := j.Created[l.UID]
	_, has := f.Has[l.UID]
	return !f.Backup.IsZero() && !has && known && created.Before(f.To)
}

// nodeOutage is how much of a time faults that can hold up a life's end, and their
// after-effects, take up.
func (j *judge) nodeOutage(l *Life, from, to time.Time, recovery time.Duration) time.Duration {
	return j.outage(from, to, recovery, func(f *Fault) bool { return f.Node && (f.Pod == "" || f.Pod == l.UID) })
}

// outage is how much of a time faults that are chosen, and their after-effects,
// take up.
func (j *judge) outage(from, to time.Time, recovery time.Duration, chosen func(*Fault) bool) time.Duration {
	var total time.Duration
	faults := slices.Clone(j.Faults)
	slices.SortFunc(faults, func(a, b Fault) int { return a.From.Compare(b.From) })
	for i := range faults {
		if !chosen(&faults[i]) {
			continue
		}
		begin, end := faults[i].From, faults[i].To.Add(recovery)
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if end.After(begin) {
			total += end.Sub(begin)
			from = end
		}
	}
	return total
}

func anyFault(*Fault) bool { return true }

func (l *Life) String() string {
	id := l.ID
	if len(id) > 12 {
		id = id[:12]
	}
	return fmt.Sprintf("%s/%s %s (incarnation %d, revision %d, grace %s)", l.Workload, l.Container, id, l.Incarnation, l.Revision, l.Grace)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("15:04:05.000")
}
