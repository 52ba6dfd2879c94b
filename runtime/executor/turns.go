// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// turns makes the kills of a pod wait for those that end before them. With nil
// nothing waits. (kubelet kuberuntime_termination_order.go:terminationOrdering)
type turns struct {
	// done is closed when a container has ended, the first one if two run under
	// one name. once sees to that; it has the kills that are these turns' own.
	done map[string]chan struct{}
	once map[string]*sync.Once
}

// takeTurns returns the turns of kills that begin together, until leave is called. Some may wait for
// kills of the pod that began earlier.
func (e *Executor) takeTurns(podUID types.UID, kills []plan.Kill) (t *turns, leave func()) {
	t = &turns{done: map[string]chan struct{}{}, once: map[string]*sync.Once{}}
	for _, k := range kills {
		t.done[k.Name], t.once[k.Name] = make(chan struct{}), new(sync.Once)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range kills {
		for _, before := range k.WaitsFor {
			t.join(before, e.turns[podUID])
		}
	}
	if e.turns[podUID] == nil {
		e.turns[podUID] = map[*turns]struct{}{}
	}
	e.turns[podUID][t] = struct{}{}
	return t, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.turns[podUID], t)
		if len(e.turns[podUID]) == 0 {
			delete(e.turns, podUID)
		}
	}
}

// join has the end of a container known whose kill is one of other turns.
func (t *turns) join(name string, others map[*turns]struct{}) {
	for other := range others {
		if t.done[name] == nil && other.once[name] != nil {
			t.done[name] = other.done[name]
		}
	}
}

// ends is closed when a container has ended; nil if no kill of it is under way.
func (t *turns) ends(name string) <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.done[name]
}

// mustWait is whether one of these containers is being killed and has not ended yet.
func (t *turns) mustWait(waitsFor []string) bool {
	return slices.ContainsFunc(waitsFor, func(before string) bool {
		ends := t.ends(before)
		if ends == nil {
			return false
		}
		select {
		case <-ends:
			return false
		default:
			return true
		}
	})
}

// wait waits for the end of these containers, until ctx ends.
func (t *turns) wait(ctx context.Context, waitsFor []string) {
	for _, before := range waitsFor {
		ends := t.ends(before)
		if ends == nil {
			continue
		}
		select {
		case <-ends:
		case <-ctx.Done():
			return
		}
	}
}

// ended says that a container has been stopped. One that could not be stopped
// never ends, and those behind it wait out their time.
func (t *turns) ended(name string) {
	if t == nil || t.once[name] == nil {
		return
	}
	t.once[name].Do(func() { close(t.done[name]) })
}
