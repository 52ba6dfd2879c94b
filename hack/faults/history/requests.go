// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"
)

// covering are the requests that may have asked for the life's end.
func (j *judge) covering(l *Life) []*Request { return j.coveringBy(l, l.Last) }

// coveringBy are those that were made by then.
func (j *judge) coveringBy(l *Life, by time.Time) []*Request {
	var found []*Request
	began := l.began()
	for i := range j.Requests {
		r := &j.Requests[i]
		if r.Workload != l.Workload || r.Incarnation != l.Incarnation || r.From.After(by) {
			continue
		}
		switch r.Kind {
		case Delete:
			found = append(found, r)
		case Change, Restart:
			if r.Revision > l.Revision {
				found = append(found, r)
			}
		case FailProbe:
			if r.Container == l.Container && !l.Start.After(r.Until) && !j.after(l, began, r.Until) {
				found = append(found, r)
			}
		}
	}
	return found
}

// after reports that a time is later than another by more than what a probe, a
// sync and the outages between them take.
func (j *judge) after(l *Life, t, until time.Time) bool {
	return t.Sub(until)-j.nodeOutage(l, until, t, nodeRecovery) > slack
}

// requested: no kill that was not requested.
func (j *judge) requested() {
	for i := range j.Lives {
		l := &j.Lives[i]
		if !l.killed() {
			continue
		}
		asked := false
		for _, r := range j.covering(l) {
			asked = asked || !r.From.After(l.began())
		}
		switch {
		case asked:
		case j.lostShim(l):
			j.exempt("runtime shim killed")
		case j.cutStart(l):
			j.exempt("start cut off")
		case j.rolledBack(l):
			j.exempt("not in the restored etcd")
		default:
			j.violation("%s: hook %s, stop signal %s, last seen %s, and nothing had asked for its end", l, clock(l.Hook), clock(l.Term), clock(l.Last))
		}
	}
}

// completed: every kill that was asked for ends its containers, with what the
// outages add. An object is not gone before its containers are.
func (j *judge) completed() {
	for i := range j.Requests {
		r := &j.Requests[i]
		if r.Acked.IsZero() || r.Kind == FailProbe && r.Until.Sub(r.From)-j.outage(r.From, r.Until, apiRecovery, anyFault) < reaction {
			continue
		}
		for _, l := range j.byWorkload[r.Workload] {
			if j.ends(r, l) {
				j.inTime(r, l)
			}
		}
	}
	for i := range j.Lives {
		l := &j.Lives[i]
		if gone, ok := j.Gone[l.UID]; ok && l.Last.After(gone.Add(beat)) && !j.lostShim(l) && !j.cameBack(l, gone) {
			j.violation("%s ran until %s, and its NodeWorkload was gone at %s", l, clock(l.Last), clock(gone))
		}
	}
}

// inTime judges when a request has ended a life. Once etcd is restored from a copy
// of before, it cannot.
func (j *judge) inTime(r *Request, l *Life) {
	until := l.Last
	if lost := j.lost(r); !lost.IsZero() && lost.Before(until) {
		until = lost
	}
	switch {
	case j.tooLate(r, l, until):
		j.violation("%s asked at %s for the end of %s, which ran until %s", r.Kind, clock(r.Acked), l, clock(l.Last))
	case j.tooLate(r, l, l.Last):
		j.exempt("request not in the restored etcd")
	}
}

// ends reports that the request is to end this life.
func (j *judge) ends(r *Request, l *Life) bool {
	if l.Incarnation != r.Incarnation || l.Start.After(r.Acked) || !l.Last.After(r.Acked) {
		return false
	}
	switch r.Kind {
	case Delete:
		return true
	case Change, Restart:
		return r.Revision > l.Revision
	case FailProbe:
		return r.Container == l.Container && !l.Start.After(r.From)
	}
	return false
}

// tooLate reports that a life that ran until then did so for too long, whatever failed.
func (j *judge) tooLate(r *Request, l *Life, until time.Time) bool {
	more := until.Sub(r.Acked) - max(l.Grace, r.Grace, minimum) - minimum
	return more-j.outage(r.Acked, until, 0, anyFault) > patience || more-j.outage(r.Acked, until, apiRecovery, anyFault) > reaction
}

// cameBack reports that the object of a life was gone, and that a restored etcd had it
// again.
func (j *judge) cameBack(l *Life, gone time.Time) bool {
	return slices.ContainsFunc(j.Faults, func(f Fault) bool {
		_, has := f.Has[l.UID]
		return has && f.To.After(gone) && f.From.Before(l.Last)
	})
}
