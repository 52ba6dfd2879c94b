// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// garbageInterval is the time between two collections.
// (kubelet kubelet.go:ContainerGCPeriod)
const garbageInterval = time.Minute

// podObserver is what the collector reads from the runtime.
type podObserver interface {
	ListPods(ctx context.Context) ([]cri.Pod, error)
	PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error)
}

// collector removes dead containers and sandboxes that are too many, and what
// pods that are gone have left on the disk.
type collector struct {
	runtime  podObserver
	executor *executor.Executor
	dirs     *poddir.Manager
	pool     *podworker.Pool
	orphans  *orphanKeeper
}

// run collects each minute until the context is done.
func (c *collector) run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	ticker := time.NewTicker(garbageInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.collect(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Garbage not collected, trying again in a minute")
		}
	}
}

func (c *collector) collect(ctx context.Context) error {
	err := c.executor.CollectGarbage(ctx, executor.GarbageOptions{
		List: c.list,
		// The containers of workloads that are gone are their workers' business.
		ContentRemoved: func(types.UID) bool { return false },
		AllKnown:       c.orphans.synced(),
		Policy:         executor.DefaultGarbagePolicy(),
	})
	if err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	return c.removeLeftovers(ctx)
}

// list lists what may be too many: the pods that have more than one dead
// instance of a container, or more than one sandbox. To read all would be much to
// ask of a node where nothing happens.
func (c *collector) list(ctx context.Context) (executor.Garbage, error) {
	pods, err := c.runtime.ListPods(ctx)
	if err != nil {
		return executor.Garbage{}, err
	}
	workers := indexKnown(c.pool.Known())
	var garbage executor.Garbage
	for _, p := range pods {
		worker, known := workers[p.UID]
		if !p.Ours || !known || worker.Deleting {
			continue
		}
		if p.Dead <= 1 && len(p.Sandboxes) <= 1 {
			continue
		}
		observed, err := c.runtime.PodStatus(ctx, p.UID)
		if err != nil {
			return executor.Garbage{}, fmt.Errorf("observe pod %s: %w", p.UID, err)
		}
		addGarbage(&garbage, p, observed)
	}
	return garbage, nil
}

func addGarbage(garbage *executor.Garbage, p cri.Pod, observed *plan.PodStatus) {
	for _, ctr := range observed.Containers {
		garbage.Containers = append(garbage.Containers, executor.GarbageContainer{
			ID: ctr.ID, Name: ctr.Name, SandboxID: ctr.SandboxID,
			PodUID: p.UID, PodName: p.Name, PodNamespace: p.Namespace,
			State: ctr.State, CreatedAt: ctr.CreatedAt,
		})
	}
	// A container of others keeps its sandbox, as in the kubelet.
	for _, f := range p.Foreign {
		garbage.UsedSandboxes = append(garbage.UsedSandboxes, f.SandboxID)
	}
	for _, s := range observed.Sandboxes {
		garbage.Sandboxes = append(garbage.Sandboxes, executor.GarbageSandbox{
			ID: s.ID, PodUID: p.UID, Ready: s.State == plan.SandboxReady, CreatedAt: s.CreatedAt,
		})
	}
}

// removeLeftovers removes directories and logs of pods that nobody knows: no
// worker, not the API server, not the runtime.
func (c *collector) removeLeftovers(ctx context.Context) error {
	if !c.orphans.synced() {
		return nil
	}
	onDisk, err := c.dirs.Pods()
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
	for _, id := range onDisk {
		if listed[id.UID] {
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("Removing what a pod that is gone left on the disk", "pod", id.Namespace+"/"+id.Name, "uid", id.UID)
		if err := c.dirs.Remove(ctx, id); err != nil {
			return fmt.Errorf("remove leftovers of %s: %w", id.UID, err)
		}
	}
	return nil
}
