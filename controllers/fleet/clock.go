// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/managedworkload/managedworkload/controllers/writes"
)

// clockTolerance is how far a node's clock may be off while its times are used as they are. It
// is far more than what measuring is off by: a write of a Lease takes up to ten seconds, and
// managedFields have seconds.
const clockTolerance = time.Minute

// offset is how far a node's clock is ahead of the API server's, negative when it is behind.
type offset struct {
	time.Duration
	// known is false where nothing measures it; then the node is believed.
	known bool
}

// measure compares the time that a shim wrote into its Lease with the time at which, by
// managedFields, the API server took it.
func measure(lease *coordinationv1.Lease) offset {
	taken := writes.LastWrite(lease.ManagedFields, "spec", "renewTime")
	if taken == nil || lease.Spec.RenewTime == nil {
		return offset{}
	}
	return offset{lease.Spec.RenewTime.Sub(taken.Time.Time), true}
}

// wrong reports whether the clock is known to be off by more than it may.
func (o offset) wrong() bool { return o.known && o.Abs() > clockTolerance }

// real is when by the API server's clock it was the time at by the node's.
func (o offset) real(at time.Time) time.Time {
	if !o.wrong() {
		return at
	}
	return at.Add(-o.Duration)
}

// clock is how far the clock of a node is off, as its Lease showed last.
func (s *Shims) clock(node string) offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.seen[node]; ok {
		return seen.clock
	}
	return offset{}
}

// claimed is when something began that began at a time, for all that is known, and was seen to
// have begun at another. It is never zero: that were not begun.
func claimed(at, seen time.Time) time.Time {
	if at.Before(seen) {
		return time.Unix(max(at.Unix(), 0), 0)
	}
	return seen
}

// dated is a Share whose times no longer are only its node's word, as soon as it is known how
// far that node's clock is off.
func (s *Shims) dated(share *Share) *Share {
	if share.readyWordAt.IsZero() && share.lateWordAt.IsZero() {
		return share
	}
	clock := s.clock(share.Node)
	if !clock.known {
		return share
	}
	dated := *share
	if !dated.readyWordAt.IsZero() {
		dated.ReadySince, dated.readyWordAt = claimed(clock.real(dated.readyAt), dated.readyWordAt), time.Time{}
	}
	if !dated.lateWordAt.IsZero() {
		dated.LateSince, dated.lateWordAt = claimed(clock.real(dated.lateAt), dated.lateWordAt), time.Time{}
	}
	return &dated
}

// date dates the Shares of a node, whose Lease may be seen after them.
func (x *Index) date(node string) {
	x.feeding.Lock()
	defer x.feeding.Unlock()
	for _, key := range x.OnNode(node) {
		share := x.Get(key)
		x.apply(share, share, "")
	}
}
