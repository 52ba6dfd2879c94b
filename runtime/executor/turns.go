// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"slices"
	"sync"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// turns makes the kills of a pod wait for those that end before them. With nil
// nothing waits. (kubelet kuberuntime_termination_order.go:terminationOrdering)
type turns struct {
	// done is closed when a container has ended, the first one if two run under
	// one name; once sees to that.
	done map[string]chan struct{}
	once map[string]*sync.Once
}

// newTurns returns the turns of kills that begin together, nil if none waits.
func newTurns(kills []plan.Kill) *turns {
	if !slices.ContainsFunc(kills, func(k plan.Kill) bool { return len(k.WaitsFor) > 0 }) {
		return nil
	}
	t := &turns{done: map[string]chan struct{}{}, once: map[string]*sync.Once{}}
	for _, k := range kills {
		t.done[k.Name], t.once[k.Name] = make(chan struct{}), new(sync.Once)
	}
	return t
}

// mustWait is whether one of these containers has not ended yet.
func (t *turns) mustWait(waitsFor []string) bool {
	if t == nil {
		return false
	}
	for _, before := range waitsFor {
		select {
		case <-t.done[before]:
		default:
			return true
		}
	}
	return false
}

// wait waits for the end of these containers, until ctx ends.
func (t *turns) wait(ctx context.Context, waitsFor []string) {
	for _, before := range waitsFor {
		select {
		case <-t.done[before]:
		case <-ctx.Done():
			return
		}
	}
}

// ended says that a container has been stopped. One that could not be stopped
// never ends, and those behind it wait out their time.
func (t *turns) ended(name string) {
	if t == nil || t.done[name] == nil {
		return
	}
	t.once[name].Do(func() { close(t.done[name]) })
}
