// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// Garbage is what lies on the runtime and belongs to us.
type Garbage struct {
	Containers []GarbageContainer
	Sandboxes  []GarbageSandbox
	// UsedSandboxes are sandboxes that hold something else that may run.
	UsedSandboxes []string
}

// GarbageContainer is a container that may be collected.
type GarbageContainer struct {
	ID, Name, SandboxID string
	// PodUID, PodName and PodNamespace say whose it is, by its labels.
	PodUID                types.UID
	PodName, PodNamespace string
	State                 plan.ContainerState
	CreatedAt             time.Time
}

// GarbageSandbox is a sandbox that may be collected.
type GarbageSandbox struct {
	ID     string
	PodUID types.UID
	Ready  bool
	// Attempt counts the sandboxes of a pod: the newest has the greatest, whatever
	// the clock said.
	Attempt   uint32
	CreatedAt time.Time
}

// GarbagePolicy is how much is kept; a negative number sets no bound.
type GarbagePolicy struct {
	// MinAge is the least age since creation.
	MinAge time.Duration
	// MaxPerPodContainer is how many dead instances of a pod's container are
	// kept, MaxContainers how many dead containers in all.
	MaxPerPodContainer, MaxContainers int
}

// DefaultGarbagePolicy returns the kubelet's policy.
func DefaultGarbagePolicy() GarbagePolicy {
	return GarbagePolicy{MaxPerPodContainer: 1, MaxContainers: -1}
}

// GarbageOptions are what a collection goes by.
type GarbageOptions struct {
	// List lists what is ours on the runtime. It is called before containers and
	// again before sandboxes are collected.
	List func(ctx context.Context) (Garbage, error)
	// ContentRemoved reports whether a pod is gone and nothing of it is to stay.
	ContentRemoved func(uid types.UID) bool
	// RuntimeRemoved reports whether a pod has ended; all of its dead containers
	// are collected when EvictNonDeletedPods is set. It may be nil.
	RuntimeRemoved      func(uid types.UID) bool
	EvictNonDeletedPods bool
	// AllKnown is whether the list of pods is complete; if it is not, no pod
	// counts as gone.
	AllKnown bool
	Policy   GarbagePolicy
}

// CollectGarbage removes dead containers and sandboxes that are not to be kept. A
// container in unknown state is killed before it is removed. (kubelet
// kuberuntime_gc.go:GarbageCollect)
func (e *Executor) CollectGarbage(ctx context.Context, opts GarbageOptions) error {
	g := &collection{e: e, opts: opts}
	return errors.Join(g.containers(ctx), g.sandboxes(ctx))
}

// collection is one run of the garbage collector.
type collection struct {
	e    *Executor
	opts GarbageOptions
}

// unit is a container of a pod: its instances are counted together.
type unit struct {
	uid  types.UID
	name string
}

// gone reports whether nothing of a pod is to stay on the runtime.
func (g *collection) gone(uid types.UID) bool {
	return g.opts.ContentRemoved(uid) ||
		(g.opts.EvictNonDeletedPods && g.opts.RuntimeRemoved != nil && g.opts.RuntimeRemoved(uid))
}

// containers removes the dead containers that are too many.
// (kubelet kuberuntime_gc.go:evictContainers)
func (g *collection) containers(ctx context.Context) error {
	garbage, err := g.opts.List(ctx)
	if err != nil {
		return fmt.Errorf("list containers to collect: %w", err)
	}
	units, order := g.evictable(garbage.Containers)
	if g.opts.AllKnown {
		for _, u := range order {
			if g.gone(u.uid) {
				g.removeOldest(ctx, units[u], len(units[u]))
				delete(units, u)
			}
		}
		order = slices.DeleteFunc(order, func(u unit) bool { return units[u] == nil })
	}
	if most := g.opts.Policy.MaxPerPodContainer; most >= 0 {
		g.bound(ctx, units, order, most)
	}
	if most := g.opts.Policy.MaxContainers; most >= 0 {
		g.boundAll(ctx, units, order, most)
	}
	return nil
}

// evictable returns the containers that do not run and are old enough, by unit,
// newest first, and the units in a defined order. One that was created in a time
// to come has just been created: the kubelet leaves it until that time.
func (g *collection) evictable(containers []GarbageContainer) (map[unit][]GarbageContainer, []unit) {
	units := map[unit][]GarbageContainer{}
	var order []unit
	now := time.Now()
	for _, c := range containers {
		if c.State == plan.ContainerRunning || max(0, now.Sub(c.CreatedAt)) < g.opts.Policy.MinAge {
			continue
		}
		u := unit{c.PodUID, c.Name}
		if units[u] == nil {
			order = append(order, u)
		}
		units[u] = append(units[u], c)
	}
	for _, list := range units {
		slices.SortStableFunc(list, newestFirst)
	}
	slices.SortFunc(order, func(a, b unit) int {
		return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.name, b.name))
	})
	return units, order
}

func newestFirst(a, b GarbageContainer) int { return b.CreatedAt.Compare(a.CreatedAt) }

// bound keeps the newest few of each unit.
func (g *collection) bound(ctx context.Context, units map[unit][]GarbageContainer, order []unit, most int) {
	for _, u := range order {
		units[u] = g.removeOldest(ctx, units[u], len(units[u])-most)
	}
}

// boundAll keeps about the same number of each unit, one at least, and then the
// newest of all.
func (g *collection) boundAll(ctx context.Context, units map[unit][]GarbageContainer, order []unit, most int) {
	count := func() (n int) {
		for _, u := range order {
			n += len(units[u])
		}
		return n
	}
	if count() <= most {
		return
	}
	g.bound(ctx, units, order, max(1, most/len(order)))
	if count() <= most {
		return
	}
	var all []GarbageContainer
	for _, u := range order {
		all = append(all, units[u]...)
	}
	slices.SortStableFunc(all, newestFirst)
	g.removeOldest(ctx, all, len(all)-most)
}

// removeOldest removes the last n of a list, the oldest first, and returns what
// is kept. A removal that failed counts as done: the next run tries again.
// (kubelet kuberuntime_gc.go:removeOldestN)
func (g *collection) removeOldest(ctx context.Context, list []GarbageContainer, n int) []GarbageContainer {
	keep := len(list) - max(0, n)
	for _, c := range slices.Backward(list[keep:]) {
		log := logr.FromContextOrDiscard(ctx).WithValues("container", c.Name, "containerID", c.ID)
		if c.State == plan.ContainerUnknown {
			// To remove one whose state stays unknown starts nothing beside it.
			if err := g.killUnknown(ctx, c); err != nil && !errors.Is(err, errMayRun) {
				log.Error(err, "Failed to kill container of unknown state")
				continue
			}
		}
		if err := g.e.removeContainer(ctx, c.ID, false); err != nil && !runtimeerror.IsNotFound(err) {
			log.Error(err, "Failed to remove container")
		}
	}
	return list[:keep]
}

// killUnknown kills a container that may run, by what was recorded with it.
func (g *collection) killUnknown(ctx context.Context, c GarbageContainer) error {
	pod := &corev1.Pod{}
	pod.UID, pod.Name, pod.Namespace = c.PodUID, c.PodName, c.PodNamespace
	status, err := g.e.containerStatus(ctx, c.ID)
	if runtimeerror.IsNotFound(err) {
		return nil // gone, and its record with it
	}
	if err != nil {
		return err
	}
	return g.e.KillContainer(ctx, pod, plan.GarbageKill(pod, &status))
}

// sandboxes removes sandboxes that are not ready and hold no container, but the
// newest of a pod that lives. (kubelet kuberuntime_gc.go:evictSandboxes)
func (g *collection) sandboxes(ctx context.Context) error {
	garbage, err := g.opts.List(ctx)
	if err != nil {
		return fmt.Errorf("list sandboxes to collect: %w", err)
	}
	used := map[string]bool{}
	for _, id := range garbage.UsedSandboxes {
		used[id] = true
	}
	for _, c := range garbage.Containers {
		used[c.SandboxID] = true
	}
	slices.SortStableFunc(garbage.Sandboxes, func(a, b GarbageSandbox) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
	for i, s := range slices.Backward(garbage.Sandboxes) {
		newest := i == 0 || garbage.Sandboxes[i-1].PodUID != s.PodUID
		if s.Ready || used[s.ID] || (newest && !g.gone(s.PodUID)) {
			continue
		}
		g.removeSandbox(ctx, s.ID)
	}
	return nil
}

// removeSandbox stops a sandbox before it removes it: the runtime may still hold
// its network.
func (g *collection) removeSandbox(ctx context.Context, id string) {
	log := logr.FromContextOrDiscard(ctx).WithValues("sandboxID", id)
	if err := g.e.runtime.StopSandbox(ctx, id); err != nil {
		log.Error(err, "Failed to stop sandbox before removing it")
		return
	}
	if err := g.e.runtime.RemoveSandbox(ctx, id); err != nil {
		log.Error(err, "Failed to remove sandbox")
	}
}
