// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// garbageInterval is the time between two collections.
// (kubelet kubelet.go:ContainerGCPeriod)
const garbageInterval = time.Minute

// garbagePatience is how long the garbage of other pods waits for that of one: a runtime that
// does not answer about one container answers about the others.
const garbagePatience = 2 * time.Second

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
	KillLeftovers(ctx context.Context, uid types.UID) ([]podcgroup.Process, error)
}

// collector removes dead containers and sandboxes that are too many, and what
// pods that are gone have left on the disk.
type collector struct {
	runtime  podObserver
	executor *executor.Executor
	dirs     podFiles
	pool     *podworker.Pool
	orphans  *orphanKeeper

	mu sync.Mutex
	// busy are the pods whose garbage is being collected.
	busy map[types.UID]bool
	// unremoved are the pods whose leftovers could not be removed in the last round; that loop's own.
	unremoved map[types.UID]bool
	// late are the results of collections that rounds did not wait for; run's own.
	late []<-chan error
}

// run collects containers and sandboxes each minute until the context is done.
func (c *collector) run(ctx context.Context) error {
	defer func() {
		if err := results(c.late); err != nil { // their calls end with the context
			logr.FromContextOrDiscard(ctx).V(1).Info("Garbage was left", "reason", err.Error())
		}
	}()
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
// workloads that have ended and still have their object. It waits for all of that. (kubelet
// container/container_gc.go:DeleteAllUnusedContainers)
func (c *collector) Reclaim(ctx context.Context) error {
	left, err := c.collect(ctx, true)
	return errors.Join(err, results(left))
}

// results waits for collections.
func results(of []<-chan error) error {
	var errs []error
	for _, done := range of {
		errs = append(errs, <-done)
	}
	return summarize(errs)
}

// collectContainers removes dead containers and sandboxes that are too many. A pod
// that cannot be read keeps its own.
func (c *collector) collectContainers(ctx context.Context) error {
	left, err := c.collect(ctx, false)
	errs := []error{err}
	c.late = slices.DeleteFunc(append(c.late, left...), func(done <-chan error) bool {
		select {
		case err := <-done:
			errs = append(errs, err)
			return true
		default:
			return false
		}
	})
	return summarize(errs)
}

// collect removes what is too many, pod by pod; ended says that all goes of workloads that have
// ended. A pod that takes longer than garbagePatience is continued beside the others, and left
// are the results of those.
func (c *collector) collect(ctx context.Context, ended bool) (left []<-chan error, err error) {
	pods, err := c.runtime.ListPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	workers := indexKnown(c.pool.Known())
	var errs []error
	for _, p := range pods {
		worker, known := workers[p.UID]
		if !known || !mayHaveGarbage(p, worker, ended) {
			continue
		}
		done := c.begin(ctx, p, worker, ended)
		if done == nil {
			errs = append(errs, fmt.Errorf("pod %s: an earlier collection has not ended", p.UID))
			continue
		}
		select {
		case err := <-done:
			errs = append(errs, err)
		case <-time.After(garbagePatience):
			left = append(left, done)
		}
	}
	return left, summarize(errs)
}

// mayHaveGarbage reports whether something of a pod may be too many: it has more than one dead
// instance of a container, or more than one sandbox, and with ended it is one of which nothing is
// started any more. To read all would be much to ask of a node where nothing happens.
func mayHaveGarbage(p cri.Pod, worker podworker.Known, ended bool) bool {
	if !p.Ours || worker.Deleting {
		return false
	}
	return p.Dead > 1 || len(p.Sandboxes) > 1 || ended && worker.Terminated
}

// begin begins to collect what a pod has too many of, and returns where its result comes; nil if
// that was begun before and has not ended. No call is cut off: to cancel a stop of a container
// would take its grace period from it.
func (c *collector) begin(ctx context.Context, p cri.Pod, worker podworker.Known, ended bool) <-chan error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[p.UID] {
		return nil
	}
	if c.busy == nil {
		c.busy = map[types.UID]bool{}
	}
	c.busy[p.UID] = true
	done := make(chan error, 1)
	go func() {
		err := panics.Contain(logr.FromContextOrDiscard(ctx), "garbage collector", func() error {
			return c.collectPod(ctx, p, worker, ended)
		})
		c.mu.Lock()
		delete(c.busy, p.UID)
		c.mu.Unlock()
		done <- err
	}()
	return done
}

// collectPod removes what a pod has too many of.
func (c *collector) collectPod(ctx context.Context, p cri.Pod, worker podworker.Known, ended bool) error {
	err := c.executor.CollectGarbage(ctx, executor.GarbageOptions{
		List: func(ctx context.Context) (executor.Garbage, error) { return c.list(ctx, p) },
		// The containers of workloads that are gone are their workers' business.
		ContentRemoved:      func(types.UID) bool { return false },
		RuntimeRemoved:      func(types.UID) bool { return worker.Terminated },
		EvictNonDeletedPods: ended,
		AllKnown:            c.orphans.synced(),
		Policy:              executor.DefaultGarbagePolicy(),
	})
	if err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	return nil
}

// list lists what is there of a pod. Where a sandbox may go, what others have in it is listed
// again: the round may have waited for other pods since.
func (c *collector) list(ctx context.Context, p cri.Pod) (garbage executor.Garbage, err error) {
	if len(p.Sandboxes) > 1 {
		pods, err := c.runtime.ListPods(ctx)
		if err != nil {
			return executor.Garbage{}, err
		}
		if i := slices.IndexFunc(pods, func(now cri.Pod) bool { return now.UID == p.UID }); i >= 0 {
			p = pods[i]
		}
	}
	observed, err := c.runtime.PodStatus(ctx, p.UID)
	if err != nil {
		return executor.Garbage{}, fmt.Errorf("observe pod %s: %w", p.UID, err)
	}
	addGarbage(&garbage, p, observed)
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
	failed := map[types.UID]bool{}
	for _, id := range onDisk {
		if listed[id.UID] {
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("Removing files of a pod that no longer exists", "pod", id.Namespace+"/"+id.Name, "uid", id.UID)
		if err := c.removeLeftover(ctx, id); err != nil {
			failed[id.UID] = true
			errs = append(errs, fmt.Errorf("remove leftovers of %s: %w", id.UID, err))
		}
	}
	c.unremoved = failed
	return summarize(errs)
}

// removeLeftover removes the files of one pod, or gives up for this time: a tree
// that takes longer is continued in a minute. Where that has failed before, processes may be in the
// way that the runtime has left in the pod's cgroup: it has nothing of the pod, so they are killed.
// (kubelet cm/pod_container_manager_linux.go:Destroy)
func (c *collector) removeLeftover(ctx context.Context, id poddir.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	err := c.dirs.Remove(ctx, id)
	if err == nil || !c.unremoved[id.UID] || c.pool.Has(id.UID) {
		return err
	}
	observed, unseen := c.runtime.PodStatus(ctx, id.UID)
	if unseen != nil || !plan.MayKillLeftovers(observed, garbageInterval) {
		return err
	}
	killed, failed := c.dirs.KillLeftovers(ctx, id.UID)
	if failed != nil {
		err = errors.Join(err, failed)
	}
	if len(killed) == 0 {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("Killed processes that the runtime has left in the cgroup of a pod that no longer exists",
		"pod", id.Namespace+"/"+id.Name, "uid", id.UID, "processes", fmt.Sprint(killed))
	return errors.Join(failed, c.dirs.Remove(ctx, id))
}

// maxErrors is how many errors of one kind are named.
const maxErrors = 5

// summarize joins errors: the first few by name, the others by their number.
func summarize(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
