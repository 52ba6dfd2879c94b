// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

const (
	// statusMaxAge is how long a status is believed while a list says that its
	// state is the same. What changes without its state (a network namespace that
	// went away) is seen after that.
	statusMaxAge = 30 * time.Second
	// statusSweep is how often statuses that were not asked for are dropped.
	statusSweep = 5 * time.Minute
	// exitSettles is how long the status of an exited container may still change.
	exitSettles = 5 * time.Second
)

// statusCache remembers statuses by ID, so that a steady pod costs two lists and
// nothing else. A list's state must match for a status to be used, and only of
// running, exited and ready ones is it believed that they do not change
// otherwise. Of all others it remembers whose they are.
type statusCache struct {
	mu         sync.Mutex
	sandboxes  map[string]kept[plan.SandboxStatus]
	containers map[string]kept[plan.ContainerStatus]
	swept      time.Time
}

type kept[T any] struct {
	uid types.UID
	at  time.Time
	// exited is when a container was first seen to have exited, by the time of this
	// process: the wall clock may be set.
	exited time.Time
	steady bool
	status T
}

// current reports whether the status may stand for a fresh one.
func (k kept[T]) current() bool {
	return k.steady && time.Since(k.at) < statusMaxAge
}

func newStatusCache() *statusCache {
	return &statusCache{
		sandboxes:  map[string]kept[plan.SandboxStatus]{},
		containers: map[string]kept[plan.ContainerStatus]{},
		swept:      time.Now(),
	}
}

func (c *statusCache) sandbox(id string, state plan.SandboxState) (plan.SandboxStatus, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.sandboxes[id]
	return k.status, k.current() && k.status.State == state
}

func (c *statusCache) container(id string, state plan.ContainerState) (plan.ContainerStatus, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.containers[id]
	return k.status, k.current() && k.status.State == state
}

func (c *statusCache) keepSandbox(uid types.UID, s plan.SandboxStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	c.sandboxes[s.ID] = kept[plan.SandboxStatus]{uid: uid, at: time.Now(), steady: s.State == plan.SandboxReady, status: s}
}

// keepContainer does not believe one that has only just exited: containerd may
// learn of the OOM killer after the exit.
func (c *statusCache) keepContainer(uid types.UID, s plan.ContainerStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	k := kept[plan.ContainerStatus]{uid: uid, at: time.Now(), status: s, steady: s.State == plan.ContainerRunning}
	if s.State == plan.ContainerExited {
		k.exited = c.containers[s.ID].exited
		if k.exited.IsZero() {
			k.exited = k.at
		}
		k.steady = k.at.Sub(k.exited) > exitSettles
	}
	c.containers[s.ID] = k
}

// forgetContainer makes the next look at a container a fresh one; whose it is
// stays known.
func (c *statusCache) forgetContainer(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.containers[id]; ok {
		k.steady = false
		c.containers[id] = k
	}
}

// owner returns the pod that a sandbox or container belongs to.
func (c *statusCache) owner(id string) (types.UID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.containers[id]; ok {
		return k.uid, true
	}
	k, ok := c.sandboxes[id]
	return k.uid, ok
}

// sweep drops what was not read again for long. The lock is held.
func (c *statusCache) sweep() {
	if time.Since(c.swept) < statusSweep {
		return
	}
	c.swept = time.Now()
	for id, k := range c.sandboxes {
		if time.Since(k.at) > statusSweep {
			delete(c.sandboxes, id)
		}
	}
	for id, k := range c.containers {
		if time.Since(k.at) > statusSweep {
			delete(c.containers, id)
		}
	}
}
