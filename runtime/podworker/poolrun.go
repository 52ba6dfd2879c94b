// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// start runs a worker if the pool runs; p.mu is held.
func (p *Pool) start(w *worker) {
	if p.ctx == nil || p.ended || w.started {
		return
	}
	w.started = true
	ctx := logr.NewContext(p.ctx, w.log)
	p.wg.Go(func() { p.guardedRun(ctx, w) })
}

// guardedRun runs a worker to its end. It continues after a panic outside a step.
func (p *Pool) guardedRun(ctx context.Context, w *worker) {
	for dropped := false; !dropped; {
		err := panics.Contain(w.log, "worker", func() error {
			if dropped = w.run(ctx); dropped {
				p.forget(w)
			}
			return nil
		})
		if err == nil {
			return
		}
		p.cfg.Metrics.panics.Inc()
		select {
		case <-ctx.Done():
			return
		case <-time.After(panicDelayBase):
		}
	}
}

// releasedQuiet is how long after a workload was removed its object is taken for an old
// version without asking the API server.
const releasedQuiet = 10 * time.Second

// forget drops a worker of which nothing is left, and wakes those that waited
// for it.
func (p *Pool) forget(w *worker) {
	waiting, doubted := p.drop(w)
	for _, other := range waiting {
		other.wakeUp()
	}
	if !doubted {
		p.cfg.Removed(w.id)
	}
}

// drop drops a worker and returns those of its name, and whether the API was not
// known to have its object.
func (p *Pool) drop(w *worker) (waiting []*worker, doubted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.workers, w.id.UID)
	_, doubted = p.released[w.id.UID]
	// Who hands over static workloads has no old versions of them, and their UID is that of their content:
	// the same one may come back at once.
	if d := w.mem.peek(); !d.gone && !d.orphan && !v1alpha1.IsStatic(w.id.UID) {
		if len(p.released) >= maxReleased {
			clear(p.released)
		}
		p.released[w.id.UID] = time.Now().Add(releasedQuiet)
	}
	p.freeName(w)
	p.cfg.Metrics.workloads.Set(float64(len(p.workers)))
	return p.named(func(key types.NamespacedName) bool { return key == w.id.key() }), doubted
}
