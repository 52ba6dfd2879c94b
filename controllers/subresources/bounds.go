// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// How many requests of a node are answered at the same time: for tokens, to begin watches, and that
// post what it uses. A shim begins one watch at a time. readsOfOrigin is how many reads of usage of a
// person, or of all accounts of a namespace: each is asked of all replicas.
const (
	tokensOfNode   = 4
	openingsOfNode = 2
	usagesOfNode   = 1
	readsOfOrigin  = 8
)

// bounds keep one node from taking up what all share: the manager's requests to the API server
// come one after another. A place is taken before the first of them.
type bounds struct {
	tokens, openings, usages, reads *places
}

func newBounds() *bounds {
	return &bounds{
		tokens:   &places{what: "requests for tokens", most: tokensOfNode, taken: map[place]int{}},
		openings: &places{what: "new watches", most: openingsOfNode, taken: map[place]int{}},
		usages:   &places{what: "posts of usage", most: usagesOfNode, taken: map[place]int{}},
		reads:    &places{what: "reads of usage", most: readsOfOrigin, taken: map[place]int{}},
	}
}

// place is whose requests are counted together. A user who is no shim takes none of the shim's.
type place struct{ user, node string }

type places struct {
	what string
	most int

	mu    sync.Mutex
	taken map[place]int
}

// take lets a request be answered now, until done is called, or returns an error that says
// when to come back.
func (p *places) take(c *caller) (done func(), err error) {
	return p.enter(place{c.user.GetName(), c.node}, "node "+c.node)
}

// enter is take for whom of names.
func (p *places) enter(of place, names string) (done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[of] >= p.most {
		return nil, apierrors.NewTooManyRequests("too many "+p.what+" of "+names+" at the same time", 1)
	}
	p.taken[of]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.taken[of]--; p.taken[of] == 0 {
			delete(p.taken, of)
		}
	}, nil
}
