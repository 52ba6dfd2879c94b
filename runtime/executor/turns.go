// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// turns makes the sidecars of a pod that is killed wait for the containers that
// end before them. A nil one makes nobody wait.
// (kubelet kuberuntime_termination_order.go:terminationOrdering)
type turns struct {
	waitsFor map[string][]string

	// done is closed when a container has ended, the first one if two run under
	// one name; once sees to that.
	done map[string]chan struct{}
	once map[string]*sync.Once
}

// newTurns returns the order in which the running containers of a pod end, nil
// if nobody has to wait.
func newTurns(pod *corev1.Pod, running []string) *turns {
	order := plan.TerminationOrder(pod, running)
	if len(order) == 0 {
		return nil
	}
	t := &turns{waitsFor: order, done: map[string]chan struct{}{}, once: map[string]*sync.Once{}}
	for _, name := range running {
		t.done[name], t.once[name] = make(chan struct{}), new(sync.Once)
	}
	return t
}

// mustWait tells whether a container's turn has not come yet.
func (t *turns) mustWait(name string) bool {
	if t == nil {
		return false
	}
	for _, before := range t.waitsFor[name] {
		select {
		case <-t.done[before]:
		default:
			return true
		}
	}
	return false
}

// wait waits for a container's turn, until ctx ends.
func (t *turns) wait(ctx context.Context, name string) {
	for _, before := range t.waitsFor[name] {
		select {
		case <-t.done[before]:
		case <-ctx.Done():
			return
		}
	}
}

// ended says that a container has been stopped. One that could
// not be stopped never ends, and those behind it wait out their time.
func (t *turns) ended(name string) {
	if t == nil || t.done[name] == nil {
		return
	}
	t.once[name].Do(func() { close(t.done[name]) })
}
