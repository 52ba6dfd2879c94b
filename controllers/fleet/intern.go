// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"sync"
)

// maxInterned is how many texts a generation of texts may have, and maxSets how many sets of
// references, each of which may be large.
const (
	maxInterned = 1 << 16
	maxSets     = 1 << 12
)

// shared keeps what is equal for many Shares once. What is not asked for any more is
// dropped after two generations, so that texts with times in them do not pile up.
type shared[V any] struct {
	most int

	mu         sync.Mutex
	young, old map[string]named[V]
}

// named is a value with its key as it is kept.
type named[V any] struct {
	key   string
	value V
}

var interned = &shared[struct{}]{most: maxInterned}

// intern is a text that many Shares have, kept once.
func intern(text string) string {
	if text == "" {
		return ""
	}
	return interned.one(text, func() struct{} { return struct{}{} }).key
}

// one is what is kept of a key, made if it is new.
func (s *shared[V]) one(key string, made func() V) named[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.young[key]; ok {
		return known
	}
	known, ok := s.old[key]
	if !ok {
		known = named[V]{strings.Clone(key), made()}
	}
	if s.young == nil || len(s.young) >= s.most {
		s.young, s.old = make(map[string]named[V]), s.young
	}
	s.young[known.key] = known
	return known
}
