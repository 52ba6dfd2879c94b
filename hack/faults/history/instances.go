// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"
)

// instances: never two instances of a container at once, nor two objects of a
// workload's name.
func (j *judge) instances() {
	for _, lives := range j.byWorkload {
		for i, later := range lives {
			alone := !later.NotAlone
			for _, earlier := range lives[:i] {
				if !together(earlier, later) || !later.Start.Before(earlier.Last) {
					continue
				}
				alone = true
				if j.lostShim(earlier) || j.lostShim(later) {
					j.exempt("runtime shim killed")
					continue
				}
				j.violation("%s started at %s while %s ran until %s", later, clock(later.Start), earlier, clock(earlier.Last))
			}
			switch {
			case alone:
			case j.lostShimOfPredecessor(lives[:i], later):
				j.exempt("runtime shim killed")
			default:
				j.violation("%s was not alone when it started at %s", later, clock(later.Start))
			}
		}
	}
}

// together reports that two lives must not run at once.
func together(a, b *Life) bool { return a.Container == b.Container || a.UID != b.UID }

// lostShimOfPredecessor reports that the instance that still held the lock is one
// whose runtime shim was killed: nothing waits for such a process.
func (j *judge) lostShimOfPredecessor(before []*Life, l *Life) bool {
	return slices.ContainsFunc(before, func(b *Life) bool {
		return b.Container == l.Container && j.lostShim(b) && l.Start.Sub(b.Last) < 2*time.Second
	})
}
