// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// place is what the syncs of a pod share that are carried out beside each other.
type place struct {
	// alone is held by the one that makes the place ready.
	alone sync.Mutex
	// given is what running containers were given in place, by ID; the Executor's mutex guards it.
	given map[string]plan.Resources
}

// placeOf returns the place of a pod; e.mu is held.
func (e *Executor) placeOf(uid types.UID) *place {
	p := e.places[uid]
	if p == nil {
		p = &place{given: map[string]plan.Resources{}}
		e.places[uid] = p
	}
	return p
}

// prepareAlone makes a pod's place ready for one of its syncs at a time: each asks for the limits of
// what it leaves running, and of what the others have started.
func (s *syncRun) prepareAlone(ctx context.Context) error {
	s.e.mu.Lock()
	p := s.e.placeOf(s.in.Pod.UID)
	s.e.mu.Unlock()
	p.alone.Lock()
	defer p.alone.Unlock()
	if s.in.Beside {
		around, err := s.e.runtime.PodStatus(ctx, s.in.Pod.UID)
		if err != nil {
			return fmt.Errorf("observe before starts: %w", err)
		}
		s.around = around
	}
	return s.e.prepare(ctx, s.limited())
}

// given returns what a container was given last.
func (s *syncRun) given(c *plan.ContainerStatus) (plan.Resources, bool) {
	if s.in.Beside {
		s.e.mu.Lock()
		last, ok := s.e.placeOf(s.in.Pod.UID).given[c.ID]
		s.e.mu.Unlock()
		if ok {
			return last, true
		}
	}
	return plan.Actuated(s.in.Actuated, c)
}

// noteGiven notes what a container was given in place. What is not around is forgotten.
func (e *Executor) noteGiven(uid types.UID, around *plan.PodStatus, id string, resources plan.Resources) {
	e.mu.Lock()
	defer e.mu.Unlock()
	given := e.placeOf(uid).given
	maps.DeleteFunc(given, func(id string, _ plan.Resources) bool {
		return !slices.ContainsFunc(around.Containers, func(c plan.ContainerStatus) bool { return c.ID == id })
	})
	given[id] = resources
}
