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
	if j.lostShim(l) || j.rolledBack(l) {
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
		if had >= shortest-beat {
			continue
		}
		if told := j.told(l); had >= minimum-beat && !told.IsZero() && l.Last.Sub(told) >= shortest-beat {
			j.exempt("the runtime was asked in time, and an outage kept the container from hearing of its end")
			continue
		}
		j.violation("%s: hook %s, stop signal %s, last seen %s: it had %s of %s", l, clock(l.Hook), clock(l.Term), clock(l.Last), had, shortest)
	}
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
		had := l.Last.Sub(l.began()) - j.nodeOutage(l, l.began(), l.Last)
		if had > longest+minimum+slack {
			j.violation("%s: hook %s, stop signal %s, last seen %s: it had %s of %s, outages not counted", l, clock(l.Hook), clock(l.Term), clock(l.Last), had, longest)
		}
	}
}
