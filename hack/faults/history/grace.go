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
		shortest = max(shortest-j.waitedForTurn(l), minimum)
		began := l.began()
		if stop := j.stopBeforeReady(l); l.Asked().IsZero() && !stop.IsZero() {
			began = stop
		}
		had := l.Last.Sub(began)
		if had >= shortest-beat {
			continue
		}
		if asked := j.firstAsk(l); had >= minimum-beat && !asked.IsZero() && l.Last.Sub(asked) >= shortest-beat {
			j.exempt("the runtime was asked in time, and an outage kept the container from hearing of its end")
			continue
		}
		j.violation("%s: hook %s, stop signal %s, last seen %s: it had %s of %s", l, clock(l.Hook), clock(l.Term), clock(l.Last), had, shortest)
	}
}

// waitedForTurn is how much of a sidecar's grace period the wait for the containers before
// it took, before it heard of its end: since the kill began of one that has just left.
func (j *judge) waitedForTurn(l *Life) (waited time.Duration) {
	if !l.Sidecar {
		return 0
	}
	requested := l.began()
	for _, q := range j.covering(l) {
		if q.From.Before(requested) {
			requested = q.From
		}
	}
	for _, other := range j.byWorkload[l.Workload] {
		asked := other.Asked()
		if asked.IsZero() {
			asked = j.stopBeforeReady(other)
		}
		if other.UID != l.UID || other == l || !asked.After(l.Start) || other.Last.Before(l.began().Add(-slack)) {
			continue
		}
		if all := j.attempts(other); len(all) > 0 && all[0].began().Before(asked) {
			asked = all[0].began() // the runtime refused it, so that the program did not hear of it
		}
		if asked.Before(requested) {
			asked = requested // an earlier kill of that container
		}
		waited = max(waited, l.began().Sub(asked))
	}
	return waited
}

// atMost: no container had more than its grace, but for the time in which a fault
// kept the node from ending it. A kill that the runtime refused is tried again soon,
// and has all its time then.
func (j *judge) atMost() {
	for i := range j.Lives {
		l := &j.Lives[i]
		if l.Asked().IsZero() {
			continue
		}
		began, cut := l.began(), false
		attempts := j.attempts(l)
		for k, a := range attempts {
			cut = a.cut()
			if k == 0 {
				continue
			}
			before := attempts[k-1].ended()
			if waited := a.began().Sub(before) - j.nodeOutage(l, before, a.began(), 0); waited > nodeRecovery {
				j.violation("%s: its stop failed at %s, and was tried again %s later, outages not counted", l, clock(before), waited)
			}
			if began.Before(a.began()) {
				began = a.began()
			}
		}
		j.hadAtMost(l, began, cut)
	}
}

// hadAtMost judges the kill that has ended a life. One that was cut off is taken up
// again a moment after the shim is.
func (j *judge) hadAtMost(l *Life, began time.Time, cut bool) {
	_, longest := j.graces(l)
	if !l.Hook.IsZero() {
		longest += minimum // which the stop has when the hook has used the grace up
	}
	recovery := time.Duration(0)
	if cut {
		recovery = resumption
	}
	had := func(end time.Time) (had, outage time.Duration) {
		outage = j.nodeOutage(l, began, end, recovery) + j.diskWait(began, end)
		return end.Sub(began) - outage, outage
	}
	took, outage := had(l.Last)
	if outage == 0 {
		j.report.Outside++
	}
	if took <= longest+graceSlack {
		return
	}
	if due := j.due(l); !due.IsZero() {
		if asked, _ := had(due); asked <= longest+graceSlack {
			j.exempt("the runtime ended the container later than it was asked to")
			return
		}
	}
	j.violation("%s: hook %s, stop signal %s, last seen %s: it had %s of %s, outages not counted", l, clock(l.Hook), clock(l.Term), clock(l.Last), took, longest)
}

// diskWait is how long a kill may have waited for a disk that does not answer.
func (j *judge) diskWait(from, to time.Time) time.Duration {
	return min(j.outage(from, to, 0, func(f *Fault) bool { return f.Disk }), diskPatience)
}
