// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// take adds a NodeWorkload that mw controls, whatever its name is. Of two on a node
// the one that runs stays.
func (s *scope) take(share *fleet.Share) {
	other, taken := s.shares[share.Node]
	switch {
	case !taken:
		s.shares[share.Node] = share
	case other.UID == share.UID:
	case staying(share, other) < 0:
		s.shares[share.Node] = share
		s.surplus = append(s.surplus, other)
	default:
		s.surplus = append(s.surplus, share)
	}
}

// renew replaces what is known of a NodeWorkload by what a write made of it.
func (s *scope) renew(share *fleet.Share) {
	s.memory.wrote.note(share.ResourceVersion, s.now)
	if known := s.shares[share.Node]; known != nil && known.UID == share.UID {
		s.shares[share.Node] = share
	}
	for i, known := range s.surplus {
		if known.UID == share.UID {
			s.surplus[i] = share
		}
	}
}

// staying orders two NodeWorkloads of one workload on one node, the one that stays
// first: not being deleted, taken by its shim, the older one.
func staying(a, b *fleet.Share) int {
	last := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(
		last(a.Deleting())-last(b.Deleting()),
		last(!a.Observed())-last(!b.Observed()),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}
