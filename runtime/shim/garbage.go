// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// garbageInterval is the time between two collections.
// (kubelet kubelet.go:ContainerGCPeriod)
const garbageInterval = time.Minute

// leftoverTimeout bounds the removal of one pod's files.
const leftoverTimeout = time.Minute

// podObserver is what the collector reads from the runtime.
type podObserver interface {
	ListPods(ctx context.Context) ([]cri.Pod, error)
	PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error)
}

// podFiles are the directories and logs of pods.
type podFiles interface {
	Pods(ctx context.Context) ([]poddir.Identity, error)
	Remove(ctx context.Context, pod poddir.Identity) error
}

// collector removes dead containers and sandboxes that are too many, and what
// pods that are gone have left on the disk.
type collector struct {
	runtime  podObserver
	executor *executor.Executor
	dirs     podFiles
	pool     *podworker.Pool
	orphans  *orphanKeeper
}

// run collects containers and sandboxes each minute until the context is done.
func (c *collector) run(ctx context.Context) error {
	return eachMinute(ctx, "garbage collector", c.collectContainers)
}

// runLeftovers removes files each minute until the context is done: beside the
// other, which does not wait for a slow disk.
func (c *collector) runLeftovers(ctx context.Context) error {
	return eachMinute(ctx, "removal of leftovers", c.removeLeftovers)
}

func eachMinute(ctx context.Context, part string, collect func(context.Context) error) error {
	ticker := time.NewTicker(garbageInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := panics.Contain(logr.FromContextOrDiscard(ctx), part, func() error { return collect(ctx) })
		if err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to collect garbage; retrying", "in", garbageInterval.String())
		}
	}
}

// Reclaim removes at once what would be removed within the minute, and all containers of
// workloads that have ended and still have their object. (kubelet
// container/container_gc.go:DeleteAllUnusedContainers)
func (c *collector) Reclaim(ctx context.Context) error { return c.collect(ctx, true) }

// collectContainers removes dead containers and sandboxes that are too many. A pod
// that cannot be read keeps its own.
func (c *collector) collectContainers(ctx context.Context) error { return c.collect(ctx, false) }

// collect removes what is too many; ended says that all goes of workloads that have ended.
func (c *collector) collect(ctx context.Context, ended bool) error {
	var unread []error
	var known map[types.UID]podworker.Known
	err := c.executor.CollectGarbage(ctx, executor.GarbageOptions{
		List: func(ctx context.Context) (garbage executor.Garbage, err error) {
			known = indexKnown(c.pool.Known())
			garbage, unread, err = c.list(ctx, known, ended)
			return garbage, err
		},
		// The containers of workloads that are gone are their workers' business.
		ContentRemoved:      func(types.UID) bool { return false },
		RuntimeRemoved:      func(uid types.UID) bool { return known[uid].Terminated },
		EvictNonDeletedPods: ended,
		AllKnown:            c.orphans.synced(),
		Policy:              executor.DefaultGarbagePolicy(),
	})
	if err != nil {
		err = fmt.Errorf("collect garbage: %w", err)
	}
	return errors.Join(err, summarize(unread))
}

// list lists what may be too many: the pods that have more than one dead
// instance of a container, or more than one sandbox, and with ended those of which nothing is
// started any more. To read all would be much to ask of a node where nothing happens.
// A pod that cannot be read is left out of it.
func (c *collector) list(ctx context.Context, workers map[types.UID]podworker.Known, ended bool) (garbage executor.Garbage, unread []error, err error) {
	pods, err := c.runtime.ListPods(ctx)
	if err != nil {
		return executor.Garbage{}, nil, err
	}
	for _, p := range pods {
		worker, known := workers[p.UID]
		if !p.Ours || !known || worker.Deleting {
			continue
		}
		if p.Dead <= 1 && len(p.Sandboxes) <= 1 && !(ended && worker.Terminated) {
			continue
		}
		observed, err := c.runtime.PodStatus(ctx, p.UID)
		if err != nil {
			unread = append(unread, fmt.Errorf("observe pod %s: %w", p.UID, err))
			continue
		}
		addGarbage(&garbage, p, observed)
	}
	return garbage, unread, nil
}

func addGarbage(garbage *executor.Garbage, p cri.Pod, observed *plan.PodStatus) {
	for _, ctr := range observed.Containers {
		garbage.Containers = append(garbage.Containers, executor.GarbageContainer{
			ID: ctr.ID, Name: ctr.Name, SandboxID: ctr.SandboxID,
			PodUID: p.UID, PodName: p.Name, PodNamespace: p.Namespace,
			State: ctr.State, CreatedAt: ctr.CreatedAt,
		})
	}
	// A container that the shim did not create keeps its sandbox, as in the kubelet.
	for _, f := range p.Foreign {
		garbage.UsedSandboxes = append(garbage.UsedSandboxes, f.SandboxID)
	}
	for _, s := range observed.Sandboxes {
		garbage.Sandboxes = append(garbage.Sandboxes, executor.GarbageSandbox{
			ID: s.ID, PodUID: p.UID, Ready: s.State == plan.SandboxReady, Attempt: s.Attempt, CreatedAt: s.CreatedAt,
		})
	}
}

// removeLeftovers removes directories and logs of pods that neither a worker nor
// the API server nor the runtime has.
func (c *collector) removeLeftovers(ctx context.Context) error {
	if !c.orphans.synced() {
		return nil
	}
	onDisk, err := c.dirs.Pods(ctx)
	if err != nil {
		return fmt.Errorf("list pod directories: %w", err)
	}
	pods, err := c.runtime.ListPods(ctx)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	items, err := c.orphans.list(ctx)
	if err != nil {
		return err
	}
	listed := uidsOf(items)
	for _, p := range pods {
		listed[p.UID] = true
	}
	for _, k := range c.pool.Known() {
		listed[k.UID] = true
	}
	var errs []error
	for _, id := range onDisk {
		if listed[id.UID] {
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("Removing files of a pod that no longer exists", "pod", id.Namespace+"/"+id.Name, "uid", id.UID)
		if err := c.removeLeftover(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("remove leftovers of %s: %w", id.UID, err))
		}
	}
	return summarize(errs)
}

// removeLeftover removes the files of one pod, or gives up for this time: a tree
// that takes longer is continued in a minute.
func (c *collector) removeLeftover(ctx context.Context, id poddir.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	return c.dirs.Remove(ctx, id)
}

// maxErrors is how many errors of one kind are named.
const maxErrors = 5

// summarize joins errors: the first few by name, the others by their number.
func summarize(errs []error) error {
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
