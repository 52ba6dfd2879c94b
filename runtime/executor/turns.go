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

	mu sync.Mutex
	// running counts the instances of a name that have not ended.
	running map[string]int
	done    map[string]chan struct{}
}

// newTurns returns the order in which the running containers of a pod end, nil
// if nobody has to wait.
func newTurns(pod *corev1.Pod, running []string) *turns {
	order := plan.TerminationOrder(pod, running)
	if len(order) == 0 {
		return nil
	}
	t := &turns{waitsFor: order, running: map[string]int{}, done: map[string]chan struct{}{}}
	for _, name := range running {
		if t.running[name]++; t.running[name] == 1 {
			t.done[name] = make(chan struct{})
		}
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

// ended says that an instance of a container has been stopped. One that could
// not be stopped never ends, and those behind it wait out their time.
func (t *turns) ended(name string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[name]--; t.running[name] == 0 {
		close(t.done[name])
	}
}
