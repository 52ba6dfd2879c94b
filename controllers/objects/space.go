// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

const (
	// maxBytes bounds what the manager holds of one namespace's objects, each counted once. A
	// node's files of a workload are bounded by as much.
	maxBytes = 32 << 20
	// maxObjects is how many ConfigMaps and Secrets of one namespace are watched: each takes a watch of the API
	// server and some memory, whether it exists or not.
	maxObjects = 2000
	// maxReads is how many objects of a kind are read at once in a namespace: each may be 1 MiB
	// before it is known that it does not fit.
	maxReads = 8
)

// tooMuch says why an object of a namespace is not held.
func tooMuch(namespace string) string {
	return fmt.Sprintf("the objects of namespace %s that nodes need take more than %d MiB in all", namespace, maxBytes>>20)
}

// tooMany says why an object of a namespace is not watched.
func tooMany(namespace string, most int) string {
	return fmt.Sprintf("nodes need more than %d ConfigMaps and Secrets of namespace %s", most, namespace)
}

// space is what the objects of a namespace take.
type space struct {
	held int
	// waiting have no place now, each with how much it takes.
	waiting map[*object]int
	// watched is how many are watched, and excess are those that are one too many.
	watched int
	excess  map[*object]bool
}

// spaceOf is that of a namespace. The mutex is held.
func (h *Hub) spaceOf(namespace string) *space {
	s := h.spaces[namespace]
	if s == nil {
		s = &space{waiting: map[*object]int{}, excess: map[*object]bool{}}
		h.spaces[namespace] = s
	}
	return s
}

// watch begins to watch an object, if its namespace has a place. Who came first stays. The mutex is held, and the hub
// runs.
func (h *Hub) watch(o *object) {
	if o.key.Kind != apiobjects.ServiceAccount {
		s := h.spaceOf(o.key.Namespace)
		if s.watched >= h.maxObjects {
			s.excess[o] = true
			h.version++
			o.state, o.version = unavailable(o.key, tooMany(o.key.Namespace, h.maxObjects)), h.version
			o.state.ResourceVersion = strconv.FormatUint(h.version, 10)
			return
		}
		s.watched++
		delete(s.excess, o)
	}
	o.cancel = h.launch(o.runner())
}

// unwatch ends that. Another object of the namespace gets the place. The mutex is held.
func (h *Hub) unwatch(o *object) {
	s := h.spaceOf(o.key.Namespace)
	if o.cancel == nil {
		delete(s.excess, o)
		return
	}
	o.cancel()
	if o.key.Kind == apiobjects.ServiceAccount {
		return
	}
	s.watched--
	for next := range s.excess {
		if h.launch != nil { // or the hub ends
			h.watch(next)
		}
		break
	}
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
	size := sizeOf(state)
	if h.spaces[namespace] == nil && size == 0 {
		return state
	}
	s := h.spaceOf(namespace)
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
	h.unwatch(o)
	s := h.spaceOf(o.key.Namespace)
	delete(s.waiting, o)
	if s.held -= o.held; o.held > 0 {
		s.admit()
	}
	if o.held = 0; s.held == 0 && len(s.waiting)+s.watched+len(s.excess) == 0 {
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
func (h *Hub) waits(key apiobjects.Key) bool { return h.noPlace(key) != "" }

// noPlace says why there is no place for an object, "" if there is.
func (h *Hub) noPlace(key apiobjects.Key) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, s := h.objects[key], h.spaces[key.Namespace]
	if o == nil || s == nil {
		return ""
	}
	if _, waits := s.waiting[o]; waits {
		return tooMuch(key.Namespace)
	}
	if s.excess[o] {
		return tooMany(key.Namespace, h.maxObjects)
	}
	return ""
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
