// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Pool owns the workers.
type Pool struct {
	cfg Config
	wg  sync.WaitGroup

	mu      sync.Mutex
	ctx     context.Context // the lifetime of all workers, set by Run
	workers map[types.UID]*worker
	// present are the UIDs that the runtime was last seen to have, by name.
	present map[types.NamespacedName][]types.UID
	// turns are the instances that may start containers, by name.
	turns map[types.NamespacedName]types.UID
	// released are the UIDs of deleted objects of which nothing is left here, with
	// the time until which the API server is not asked about them.
	released map[types.UID]time.Time
	// usable and staticUsable are nil until the first calls of SetUsable and SetStaticUsable.
	usable, staticUsable *Usable
	order                int64
	// ended: Run waits for the workers, and none is started any more.
	ended bool

	// admitting is held while the node decides about pods, one after another.
	admitting sync.Mutex
}

// New returns a pool without workers.
func New(cfg Config) *Pool {
	cfg.complete()
	return &Pool{
		cfg:      cfg,
		workers:  map[types.UID]*worker{},
		present:  map[types.NamespacedName][]types.UID{},
		turns:    map[types.NamespacedName]types.UID{},
		released: map[types.UID]time.Time{},
	}
}

// maxReleased bounds what is remembered of objects that are gone.
const maxReleased = 10_000

// Restore makes a worker from each checkpoint. Call it before Run.
func (p *Pool) Restore() error {
	checkpoints, err := p.cfg.Store.Load()
	if err != nil {
		return fmt.Errorf("restore workers: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cp := range checkpoints {
		p.order = max(p.order, cp.Order)
		w := p.add(cp.Identity, cp.Order)
		w.restore(cp)
		p.cfg.Log.Info("Worker restored from its checkpoint", "workload", cp.Identity.key(), "uid", cp.Identity.UID, "state", cp.State)
	}
	return nil
}

// Run starts the workers and waits until the context is done and all of them
// have ended.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for _, w := range p.workers {
		p.start(w) //nolint:contextcheck // it takes the pool's context, set above
	}
	p.mu.Unlock()
	<-ctx.Done()
	// Workers are started under the lock: from here on none is.
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}

// Update hands the latest version of a NodeWorkload to its worker. The object is
// not changed and may be shared.
func (p *Pool) Update(nw *template.Workload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[nw.UID]; w != nil {
		w.update(nw)
		return
	}
	p.adopt(nw)
}

// Adopt makes a worker for a NodeWorkload that has none. The version may be older
// than one that a worker has been handed.
func (p *Pool) Adopt(nw *template.Workload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[nw.UID] == nil {
		p.adopt(nw)
	}
}

// adopt makes a worker for an object; p.mu is held, so that no newer version of it
// comes first.
func (p *Pool) adopt(nw *template.Workload) {
	quiet, over := p.released[nw.UID]
	if over && time.Now().Before(quiet) {
		// This is an old version of the object.
		return
	}
	w := p.add(Identity{UID: nw.UID, Namespace: nw.Namespace, Name: nw.Name}, p.nextOrder())
	w.doubtful = over
	w.adopt(nw)
	w.update(nw)
	p.start(w)
}

// Abandon ends a workload that the API does not have any more: with its full
// spec and as a termination when its worker has seen the object, else as an
// orphan. recorded is what the runtime recorded about it, nil if nothing: without
// a worker either there is nothing to end.
func (p *Pool) Abandon(id Identity, recorded *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[id.UID]
	if w == nil {
		if recorded == nil {
			return
		}
		w = p.add(id, p.nextOrder())
	}
	w.abandon(recorded)
	p.start(w)
}

// Terminate ends a workload that still has its object, as the kubelet's eviction does:
// nothing is started any more, its status says why, and containers and logs stay until
// the object is deleted. It returns at once; false if there is no such worker.
// (kubelet pod_workers.go:killPodNow)
func (p *Pool) Terminate(uid types.UID, t plan.Termination) bool {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w != nil {
		w.terminate(t)
	}
	return w != nil
}

// Wake makes a worker look at its containers; false if there is no such worker.
func (p *Pool) Wake(uid types.UID) bool {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w != nil {
		w.wakeUp()
	}
	return w != nil
}

// Has reports whether a workload has a worker.
func (p *Pool) Has(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers[uid] != nil
}

// Ran reports whether something of a workload was seen to run.
func (p *Pool) Ran(uid types.UID) bool {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	return w != nil && w.mem.peek().ran
}

// Superseded says that a worker has another instance of that name, whose end
// was not requested.
func (p *Pool) Superseded(id Identity) bool {
	for _, w := range p.all() {
		if w.id.UID != id.UID && w.id.key() == id.key() && !w.mem.peek().ends() {
			return true
		}
	}
	return false
}

// WakeAll wakes all workers.
func (p *Pool) WakeAll() {
	for _, w := range p.all() {
		w.wakeUp()
	}
}

// Kill records a step of a kill (executor.KillSink).
func (p *Pool) Kill(uid types.UID, kill plan.KillProgress) {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w == nil {
		rec := &kill.Record
		p.cfg.Log.Info("Kill of a pod without a worker", "uid", uid, "container", rec.Container, "trigger", rec.Trigger, "phase", rec.Phase)
		return
	}
	w.recordKill(kill)
}

// SetUsable sets whether the workers of the API server's NodeWorkloads may use the runtime.
// Until the first call they wait.
func (p *Pool) SetUsable(u Usable) { p.setUsable(&p.usable, u) }

// SetStaticUsable sets it for the workers of static workloads.
func (p *Pool) SetStaticUsable(u Usable) { p.setUsable(&p.staticUsable, u) }

// setUsable sets one of p's.
func (p *Pool) setUsable(of **Usable, u Usable) {
	p.mu.Lock()
	changed := *of == nil || **of != u
	*of = &u
	p.mu.Unlock()
	if changed {
		p.WakeAll()
	}
}

// SetPresent sets which pods the runtime has: a workload waits for an older
// instance of the same name.
func (p *Pool) SetPresent(ids []Identity) {
	present := make(map[types.NamespacedName][]types.UID, len(ids))
	for _, id := range ids {
		present[id.key()] = append(present[id.key()], id.UID)
	}
	p.mu.Lock()
	before := p.present
	p.present = present
	waiting := p.named(func(key types.NamespacedName) bool { return len(present[key]) < len(before[key]) })
	p.mu.Unlock()
	for _, w := range waiting {
		w.wakeUp()
	}
}

// named are the workers of such a name; p.mu is held.
func (p *Pool) named(match func(types.NamespacedName) bool) []*worker {
	var found []*worker
	for _, w := range p.workers {
		if match(w.id.key()) {
			found = append(found, w)
		}
	}
	return found
}

// Known is a workload that has a worker.
type Known struct {
	Identity
	// Seen: the API had the object while this process ran.
	Seen bool
	// Deleting: its end was asked for.
	Deleting bool
	// Terminated: it has ended, and nothing of it is started any more. The checkpoint has that:
	// the shim that comes after knows it also where the containers are gone.
	Terminated bool
	// Gone: the worker knows that the API does not have the object.
	Gone bool
	// ClusterID is the cluster the workload came from.
	ClusterID string
	// Pod is the last accepted desired pod, nil if none.
	Pod *corev1.Pod
	// Kept are the pods before, of which something may run and be started again, and the one
	// that the node has not admitted yet.
	Kept []*corev1.Pod
}

// Known returns the workloads that have a worker, ordered by UID.
func (p *Pool) Known() []Known {
	var known []Known
	for _, w := range p.all() {
		if !p.doubts(w.id.UID) {
			known = append(known, w.mem.known())
		}
	}
	slices.SortFunc(known, func(a, b Known) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return known
}

func (p *Pool) all() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.workers))
}

// doubts says that a workload has ended here and may not be in the API.
func (p *Pool) doubts(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, over := p.released[uid]
	return over
}

// believe says that the API has an object again.
func (p *Pool) believe(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.released, uid)
}

// nextOrder is the order of a new instance; p.mu is held.
func (p *Pool) nextOrder() int64 {
	p.order++
	return p.order
}

// add makes a worker; p.mu is held.
func (p *Pool) add(id Identity, order int64) *worker {
	w := newWorker(p, id, order)
	p.workers[id.UID] = w
	p.cfg.Metrics.workloads.Set(float64(len(p.workers)))
	return w
}

// usableOf returns whether the worker of a workload may use the runtime, nil before that is known.
func (p *Pool) usableOf(uid types.UID) *Usable {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v1alpha1.IsStatic(uid) {
		return p.staticUsable
	}
	return p.usable
}

// stopping says that the process ends: what fails from now on fails because of
// that and is not recorded.
func (p *Pool) stopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ctx != nil && p.ctx.Err() != nil
}
