// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import "time"

// graces are the shortest and the longest grace period that the life's end may
// have had.
func (j *judge) graces(l *Life) (shortest, longest time.Duration) {
	requests := j.covering(l)
	shortest, longest = l.Grace, l.Grace
	for i, r := range requests {
		if i == 0 {
			shortest, longest = r.Grace, r.Grace
		}
		shortest, longest = min(shortest, r.Grace), max(longest, r.Grace)
	}
	if j.lostSandbox(l) || j.rolledBack(l) {
		shortest, longest = min(shortest, l.Grace), max(longest, l.Grace)
	}
	return max(shortest, minimum), max(longest, minimum)
}

// atLeast: no container was forced before its grace was over.
func (j *judge) atLeast() {
	for i := range j.Lives {
		l := &j.Lives[i]
		if l.Stopped {
			continue
		}
		if j.lostShim(l) {
			j.exempt("runtime shim killed")
			continue
		}
		if j.cutStart(l) {
			j.exempt("start cut off")
			continue
		}
		shortest, _ := j.graces(l)
		if l.Sidecar {
			shortest = minimum // its turn comes when the main containers have used theirs
		}
		had := l.Last.Sub(l.began())
		if had < shortest-beat && had >= minimum-beat && had+j.lateBy(l, shortest) >= shortest-beat {
			j.exempt("grace used up by an outage before the container heard of its end")
			continue
		}
		if had < shortest-beat {
			j.violation("%s: hook %s, stop signal %s, last seen %s: it had %s of %s", l, clock(l.Hook), clock(l.Term), clock(l.Last), had, shortest)
		}
	}
}

// lateBy is how long faults of the node may have kept a container from hearing of
// its end: a kill has its time from when it begins.
func (j *judge) lateBy(l *Life, grace time.Duration) (late time.Duration) {
	asked := l.Asked()
	if asked.IsZero() {
		return 0
	}
	for i := range j.Faults {
		if f := &j.Faults[i]; f.Node {
			begin, end := f.From, f.To.Add(retry)
			if earliest := asked.Add(-grace); begin.Before(earliest) {
				begin = earliest
			}
			if end.After(asked) {
				end = asked
			}
			late = max(late, end.Sub(begin))
		}
	}
	return late
}

// atMost: no container had more than its grace, but for the time in which a fault
// kept the node from ending it.
func (j *judge) atMost() {
	for i := range j.Lives {
		l := &j.Lives[i]
		if l.Asked().IsZero() {
			continue
		}
		_, longest := j.graces(l)
		had := l.Last.Sub(l.began()) - j.outage(l.began(), l.Last, nodeFault)
		if had > longest+minimum+slack {
			j.violation("%s: hook %s, stop signal %s, last seen %s: it had %s of %s, outages not counted", l, clock(l.Hook), clock(l.Term), clock(l.Last), had, longest)
		}
	}
}
