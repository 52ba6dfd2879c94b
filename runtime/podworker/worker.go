// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// worker keeps one instance of a workload. Its run method is the only one that
// acts; the others hand it news and wake it.
type worker struct {
	pool  *Pool
	cfg   *Config
	id    Identity
	order int
	log   logr.Logger
	// started is guarded by the pool.
	started bool
	// wake and publish hold at most one token each: news coalesce.
	wake, publish chan struct{}

	// saveMu orders the writes of the checkpoint.
	saveMu sync.Mutex
	// mu guards what follows.
	mu   sync.Mutex
	want desired
	rec  Checkpoint
	// unpublished says that rec.Status was not written to the API yet.
	unpublished bool
	// publishing says that it is being written right now.
	publishing bool
	// dirty says that the checkpoint is older than rec; final that there will be
	// none any more.
	dirty, final bool
	// statusRefused says that the API does not take the status: the end of the
	// workload does not wait for that.
	statusRefused bool
	killError     string

	// What follows belongs to the goroutine of run.

	// waiting is why containers wait, by name. (kubelet reason_cache.go)
	waiting map[string]status.Reason
	// resume are the kills that an earlier process left behind.
	resume []plan.KillProgress
	// current and definitions are the pod of the last plan.
	current     *corev1.Pod
	definitions *plan.Definitions
	// stopped is what was observed when everything had just stopped.
	stopped *plan.PodStatus
	// resizeError is why resources could not be changed in place the last time, and
	// resizeGeneration the generation that asks for a change; 0 if none does.
	resizeError      string
	resizeGeneration int64
	// exited are the containers that were dead at the last look.
	exited     map[string]bool
	panics     int
	quietUntil time.Time
}

func newWorker(p *Pool, id Identity, order int) *worker {
	return &worker{
		pool:    p,
		cfg:     &p.cfg,
		id:      id,
		order:   order,
		log:     p.cfg.Log.WithValues("workload", id.key(), "uid", id.UID),
		wake:    make(chan struct{}, 1),
		publish: make(chan struct{}, 1),
		rec:     Checkpoint{Identity: id, State: Syncing, BootID: p.cfg.BootID},
		waiting: map[string]status.Reason{},
	}
}

// wakeUp makes the worker take a step soon.
func (w *worker) wakeUp() { signal(w.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run takes steps until nothing is left of the workload (true) or the context is
// done (false).
func (w *worker) run(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer w.saveIfDirty()
	var publisher sync.WaitGroup
	defer publisher.Wait()
	defer cancel()
	publisher.Go(func() { w.publishLoop(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.wake:
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return false
		}
		if wait := time.Until(w.quietUntil); wait > 0 && !w.changed() {
			timer.Reset(wait)
			continue
		}
		w.quietUntil = time.Time{}
		delay, err := w.guardedStep(ctx)
		if w.state() == Removed {
			return true
		}
		if err != nil && ctx.Err() == nil {
			w.log.Error(err, "Step failed, trying again", "state", w.state(), "in", delay.Round(time.Millisecond).String())
			if calm := time.Now().Add(calmDown); w.quietUntil.Before(calm) {
				w.quietUntil = calm
			}
		}
		timer.Reset(delay)
	}
}

// guardedStep is the boundary that a panic does not pass: the worker goes on
// after a while, others do not notice.
func (w *worker) guardedStep(ctx context.Context) (delay time.Duration, err error) {
	start, state := time.Now(), w.state()
	defer func() {
		if r := recover(); r != nil {
			w.cfg.Metrics.panics.Inc()
			delay = min(panicDelayBase<<min(w.panics, 10), panicDelayMax)
			w.panics++
			w.log.Error(fmt.Errorf("panic: %v", r), "Worker panicked", "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in worker: %v", r)
			w.quietUntil = time.Now().Add(delay)
			return
		}
		w.panics = 0
		w.cfg.Metrics.stepped(state, start)
	}()
	return w.step(ctx)
}

// step does what the state asks for and returns when to look again.
func (w *worker) step(ctx context.Context) (time.Duration, error) {
	usable := w.pool.currentUsable()
	if usable == nil {
		return jitter(resyncInterval), nil
	}
	d := w.take()
	if d.idle() {
		return jitter(resyncInterval), nil
	}
	if uid := w.pool.predecessor(w); uid != "" && !d.deleted && w.state() == Syncing {
		return w.awaitPredecessor(d, uid)
	}
	delay, err := w.stepIn(ctx, w.advance(facts{deleted: d.deleted}), d, *usable)
	w.saveIfDirty()
	if left, ok := w.untilDeadline(d); ok {
		delay = min(delay, left)
	}
	if w.changed() || *w.pool.currentUsable() != *usable {
		// The wake for this may have come while an operation answered it.
		delay = 0
	}
	return delay, err
}

func (w *worker) stepIn(ctx context.Context, s State, d desired, usable Usable) (time.Duration, error) {
	switch s {
	case Syncing:
		return w.sync(ctx, d, usable)
	case Terminating:
		return w.terminate(ctx, d)
	case Terminated:
		return w.finish(ctx, d)
	case Removed:
	}
	return 0, nil
}

// advance applies the transition function and keeps the new state.
func (w *worker) advance(f facts) State {
	w.mu.Lock()
	before := w.rec.State
	w.rec.State = before.next(f)
	after := w.rec.State
	w.dirty = w.dirty || after != before
	w.mu.Unlock()
	if after != before {
		w.log.Info("Worker changes its state", "from", before, "to", after)
	}
	return after
}

func (w *worker) state() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rec.State
}

// attend carries out an operation that may take long, and stays awake meanwhile:
// onWake is called for each wake, with the way to cancel the operation's context.
// A panic of the operation becomes one of the worker. The operation has ended when
// attend has, also by a panic of onWake: no other may begin beside it.
func attend(ctx context.Context, wake <-chan struct{}, op func(context.Context), onWake func(cancel func())) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan any, 1)
	defer func() {
		cancel()
		for range done {
		}
	}()
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
			close(done)
		}()
		op(ctx)
	}()
	for {
		select {
		case r := <-done:
			if r != nil {
				panic(r)
			}
			return
		case <-wake:
			onWake(cancel)
		}
	}
}
