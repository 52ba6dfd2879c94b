// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package metricsauth

import (
	"net/netip"
	"sync"

	"k8s.io/client-go/util/flowcontrol"
)

const (
	// addressQPS and addressBurst bound the questions about tokens from one address.
	addressQPS   = 1
	addressBurst = 10
	// mostAddresses bounds the addresses that are remembered.
	mostAddresses = 1024
	// network is how much of an IPv6 address is not for a caller to choose.
	network = 64
)

// strangers bound the questions about tokens that are not known, of one address and of all: a
// caller can make up tokens.
type strangers struct {
	total flowcontrol.PassiveRateLimiter

	mu        sync.Mutex
	addresses map[netip.Prefix]flowcontrol.PassiveRateLimiter
}

func newStrangers() *strangers {
	return &strangers{
		total:     flowcontrol.NewTokenBucketPassiveRateLimiter(reviewQPS, reviewBurst),
		addresses: map[netip.Prefix]flowcontrol.PassiveRateLimiter{},
	}
}

// mayAsk says whether the API server may be asked about a token from an address. What an address
// may not ask takes nothing of the total.
func (s *strangers) mayAsk(remote string) bool {
	return s.of(remote).TryAccept() && s.total.TryAccept()
}

// of is the limit of an address. One that cannot be read shares one with its like.
func (s *strangers) of(remote string) flowcontrol.PassiveRateLimiter {
	var from netip.Prefix
	if at, err := netip.ParseAddrPort(remote); err == nil {
		address := at.Addr().Unmap().WithZone("")
		from = netip.PrefixFrom(address, min(network, address.BitLen())).Masked()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, found := s.addresses[from]
	if !found {
		if len(s.addresses) >= mostAddresses {
			clear(s.addresses) // the total holds
		}
		limit = flowcontrol.NewTokenBucketPassiveRateLimiter(addressQPS, addressBurst)
		s.addresses[from] = limit
	}
	return limit
}
