// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// worker keeps one instance of a workload. Its run method is the only one that acts;
// the others put news into the memory and wake it.
type worker struct {
	*scope
	pool *Pool
	// order is that of the instances of one name: the older has the smaller one.
	order int64
	// started is guarded by the pool, and asking by its admission: the worker asks the node
	// to admit a pod.
	started   bool
	asking    bool
	saver     *saver
	announcer *announcer
	// steps are what each state asks for.
	steps map[State]step

	// What follows belongs to the goroutine of run.

	// doubtful: the workload has ended here; whether the API has it again is to be
	// asked first.
	doubtful bool
	// forgone: the API does not have it, and nothing of it is kept.
	forgone    bool
	panics     int
	quietUntil time.Time
}

// step does what a state asks for and returns when to look again.
type step func(ctx context.Context, d desired, usable Usable) (time.Duration, error)

func newWorker(p *Pool, id Identity, order int64) *worker {
	mem := newMemory(id, p.cfg.BootID)
	mem.rec.Order = order
	s := &scope{
		cfg: &p.cfg, id: id, mem: mem, usable: func() *Usable { return p.usableOf(id.UID) },
		log:     p.cfg.Log.WithValues("workload", id.key(), "uid", id.UID),
		wake:    make(chan struct{}, 1),
		news:    make(chan struct{}, 1),
		waiting: map[string]status.Reason{},
		started: startWatch{seen: time.Now()},
	}
	s.pulls = &pulls{executor: p.cfg.Executor, log: s.log, wake: s.wakeUp}
	w := &worker{scope: s, pool: p, order: order, saver: newSaver(mem, &p.cfg, s.log, s.wakeUp)}
	s.askNode = func() { p.ask(w) }
	w.announcer = &announcer{
		mem: mem, id: id, publisher: p.cfg.Publisher, events: p.cfg.Events, metrics: p.cfg.Metrics,
		log: s.log, news: s.news, published: w.published,
	}
	w.steps = map[State]step{
		Syncing:     (&syncer{scope: s, saver: w.saver}).step,
		Terminating: (&terminator{scope: s}).step,
		Terminated:  (&remover{scope: s, saver: w.saver}).step,
	}
	return w
}

// adopt takes over what an earlier process reported about an object.
func (w *worker) adopt(nw *template.Workload) {
	w.mem.adopt(nw, w.cfg.ClusterID())
	w.resume = w.mem.killsUnderWay()
}

// restore takes over the checkpoint of an earlier process.
func (w *worker) restore(cp *Checkpoint) {
	w.mem.restore(cp, w.cfg)
	w.resume = w.mem.killsUnderWay()
	if cp.BootID != w.cfg.BootID {
		for i := range w.resume {
			w.resume[i] = w.resume[i].OfAnotherBoot()
		}
	}
}

// update hands the worker the latest version of the object.
func (w *worker) update(nw *template.Workload) {
	if w.mem.demand(func(d desired) desired { return d.updated(nw, w.cfg.Exceeds) }) {
		w.wakeUp()
	}
	if w.mem.overwritten(&nw.Status) {
		signal(w.news)
	}
}

// abandon ends a workload that the API does not have.
func (w *worker) abandon(recorded *corev1.Pod) {
	now := w.cfg.Clock.Now()
	if w.mem.demand(func(d desired) desired { return d.abandoned(recorded, now) }) {
		w.wakeUp()
	}
}

// terminate ends a workload whose object stays.
func (w *worker) terminate(t plan.Termination) {
	w.mem.demand(func(d desired) desired { return d.ending(t) })
	w.wakeUp()
}

// recordKill takes a step of a kill: it is on the disk before the kill continues, if the
// disk answers in time, and soon in the API.
func (w *worker) recordKill(kill plan.KillProgress) {
	rec := &kill.Record
	if w.pool.stopping() {
		// What fails now fails because this process ends; the next one resumes.
		return
	}
	if w.mem.recordKill(kill, w.probeDetail(rec)) {
		w.cfg.Metrics.killEnded(*rec)
	}
	w.log.V(1).Info("Kill", "container", rec.Container, "trigger", rec.Trigger, "phase", rec.Phase, "outcome", rec.Outcome)
	w.saver.saveAndWait()
	signal(w.news)
	// A deletion that came while the kill was being set up applies to it too.
	w.wakeUp()
}

// probeDetail is why the probe of a probe's kill failed; it is asked when the kill
// begins, because a new container makes the probe forget it.
func (w *worker) probeDetail(rec *v1alpha1.KillRecord) string {
	if rec.Trigger != v1alpha1.TriggerLivenessProbe && rec.Trigger != v1alpha1.TriggerStartupProbe {
		return ""
	}
	if detail, known := w.mem.detail(rec.ID); known {
		return detail
	}
	return w.cfg.Prober.LastFailure(w.id.UID, rec.ContainerID, rec.Trigger)
}

// published has what was announced saved, because a process that comes after this one must
// not announce it again, and lets go of what waits for it.
func (w *worker) published() {
	w.saver.save()
	if w.mem.state() == Terminated {
		w.wakeUp()
	}
}

// run takes steps until nothing is left of the workload (true) or the context is
// done (false).
func (w *worker) run(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer w.saver.start()()
	var announcing sync.WaitGroup
	defer announcing.Wait()
	defer w.pulls.close()
	defer func() { w.parts.wait() }()
	defer cancel()
	announcing.Go(func() { w.announcer.run(ctx) })
	timer := idleTimer()
	defer timer.Stop()
	w.wakeUp()
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
		if wait := time.Until(w.quietUntil); wait > 0 && !w.mem.changed() {
			timer.Reset(wait)
			continue
		}
		w.quietUntil = time.Time{}
		delay, err := w.guardedStep(ctx)
		if w.mem.state() == Removed {
			return true
		}
		if err != nil && ctx.Err() == nil {
			w.log.Error(err, "Step failed; retrying", "state", w.mem.state(), "in", delay.Round(time.Millisecond).String())
			if calm := time.Now().Add(calmDown); w.quietUntil.Before(calm) {
				w.quietUntil = calm
			}
		}
		if delay > 0 {
			timer.Reset(delay)
		} else {
			w.wakeUp()
		}
	}
}

// guardedStep is the boundary that a panic does not pass: the worker continues after
// a while, and the other workers are not affected.
func (w *worker) guardedStep(ctx context.Context) (delay time.Duration, err error) {
	start, state := time.Now(), w.mem.state()
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
	usable := w.usable()
	if usable == nil {
		return jitter(resyncInterval), nil
	}
	if w.doubtful {
		there, err := w.confirm(ctx)
		if err != nil {
			return jitter(errorDelay), err
		}
		w.doubtful, w.forgone = false, !there
	}
	if w.forgone {
		// What was known before the answer may be on the disk already.
		if err := w.saver.remove(ctx); err != nil {
			return jitter(errorDelay), err
		}
		w.mem.forgo()
		return 0, nil
	}
	d := w.mem.take()
	if d.idle() {
		return jitter(resyncInterval), nil
	}
	if !d.ends() && w.mem.state() == Syncing {
		w.recallRequests(d, nil)
		if uid := w.predecessor(ctx); uid != "" {
			w.pool.withdraw(w)
			return w.hold(ctx, d, uid)
		}
		d = w.offer(d)
	}
	delay, err := w.stepIn(ctx, d, *usable)
	w.saver.save()
	if left, ok := w.untilDeadline(d); ok {
		delay = min(delay, left)
	}
	if left := w.requests.Wake; left > 0 {
		delay = min(delay, left)
	}
	if w.mem.changed() || *w.usable() != *usable {
		// The wake for this may have come while an operation answered it.
		delay = 0
	}
	return delay, err
}

func (w *worker) stepIn(ctx context.Context, d desired, usable Usable) (time.Duration, error) {
	do, found := w.steps[w.advance(stateInput{terminate: d.terminates(nil), deleted: d.deleted})]
	if !found {
		return 0, nil
	}
	had := w.pool.claims(w)
	delay, err := do(ctx, d, usable)
	w.pool.gaveUp(had, w.pool.claims(w))
	if w.mem.peek().denied != nil {
		delay = min(delay, jitter(errorDelay))
	}
	return delay, err
}
