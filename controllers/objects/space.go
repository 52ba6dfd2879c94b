// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

const (
	// maxBytes bounds what the manager holds of one namespace's objects, each counted once. A
	// node's files of a workload are bounded by as much.
	maxBytes = 32 << 20
	// maxReads is how many objects of a kind are read at once in a namespace: each may be 1 MiB
	// before it is known that it does not fit.
	maxReads = 8
)

// tooMuch says why an object of a namespace is not held.
func tooMuch(namespace string) string {
	return fmt.Sprintf("the objects of namespace %s that nodes need take more than %d MiB in all", namespace, maxBytes>>20)
}

// space is what the objects of a namespace take.
type space struct {
	held int
	// waiting have no place now, each with how much it takes.
	waiting map[*object]int
}

// sizeOf is what an object takes in memory, without what all have.
func sizeOf(state *subresources.NodeObject) int {
	size := 0
	for name, content := range state.Data {
		size += len(name) + len(content)
	}
	return size
}

// fit is a state that the hub has space for: the given one, or that the object is too much.
// Who came first stays. The mutex is held.
func (h *Hub) fit(o *object, state *subresources.NodeObject) *subresources.NodeObject {
	namespace := o.key.Namespace
	s, size := h.spaces[namespace], sizeOf(state)
	if s == nil && size == 0 {
		return state
	}
	if s == nil {
		s = &space{waiting: map[*object]int{}}
		h.spaces[namespace] = s
	}
	before := s.held
	s.held -= o.held
	delete(s.waiting, o)
	if o.held = size; size > 0 && s.held+size > maxBytes {
		o.held, s.waiting[o] = 0, size
		state = unavailable(o.key, tooMuch(namespace))
	}
	if s.held += o.held; s.held < before {
		s.admit()
	}
	return state
}

// vacate frees what an object took that no node needs any more. The mutex is held.
func (h *Hub) vacate(o *object) {
	s := h.spaces[o.key.Namespace]
	if s == nil {
		return
	}
	delete(s.waiting, o)
	if s.held -= o.held; o.held > 0 {
		s.admit()
	}
	if o.held = 0; s.held == 0 && len(s.waiting) == 0 {
		delete(h.spaces, o.key.Namespace)
	}
}

// admit has those read again that have a place now, in the order of their names.
func (s *space) admit() {
	order := make([]*object, 0, len(s.waiting))
	for o := range s.waiting {
		order = append(order, o)
	}
	slices.SortFunc(order, func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.key.Kind, b.key.Kind), cmp.Compare(a.key.Name, b.key.Name))
	})
	free := maxBytes - s.held
	for _, o := range order {
		if size := s.waiting[o]; size <= free {
			free -= size
			o.retry()
		}
	}
}

// waits reports whether there is no place for an object.
func (h *Hub) waits(key apiobjects.Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, s := h.objects[key], h.spaces[key.Namespace]
	if o == nil || s == nil {
		return false
	}
	_, waits := s.waiting[o]
	return waits
}

// reads are the places of those that read at once, by what they read.
type reads struct {
	namespace string
	kind      apiobjects.Kind
}

// enter waits for the turn to read an object. leave ends it.
func (h *Hub) enter(ctx context.Context, key apiobjects.Key) (leave func(), err error) {
	of := reads{key.Namespace, key.Kind}
	h.mu.Lock()
	places := h.reads[of]
	if places == nil {
		places = &readers{turn: make(chan struct{}, maxReads)}
		h.reads[of] = places
	}
	places.users++
	h.mu.Unlock()
	forget := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if places.users--; places.users == 0 {
			delete(h.reads, of)
		}
	}
	select {
	case places.turn <- struct{}{}:
		return func() { <-places.turn; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, fmt.Errorf("wait for the turn to read: %w", ctx.Err())
	}
}

// readers take turns.
type readers struct {
	turn  chan struct{}
	users int
}
