// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"math/rand/v2"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

const (
	defaultPeriod = 10 * time.Second
	parked        = time.Duration(-1)
)

// worker probes one container by one kind of probe.
//
//	waiting (container not there, not running, not yet started: no timer)
//	   | container runs                     | new container ID
//	   v                                    |
//	ticking, one probe each period ----> on hold (liveness failed, or any
//	   |                                          startup verdict: no timer)
//	   v
//	finished (container exited for good: no goroutine)
//
// All fields are guarded by the manager's lock.
type worker struct {
	state *podState
	key   workerKey
	// container holds the probe the worker goes by.
	container *corev1.Container
	// containerID is the instance that run, hold and verdict are about.
	containerID string
	// seen is when that instance was first seen to run.
	seen     time.Time
	run      run
	onHold   bool
	finished bool
	// due is when the next probe is to start; it keeps the phase of the ticks.
	due time.Time
	// atOnce asks for a probe outside the phase, which begins a new one.
	atOnce bool
	// idle: there was nothing to probe when the goroutine last looked.
	idle bool
	// version changes with the probe, so that a result of the old one is dropped.
	version int
	wakeup  chan struct{}
	cancel  context.CancelFunc // nil without a goroutine
}

// newWorker makes a worker whose ticks begin now, as the kubelet's begin when the
// pod is added: a container that starts later is probed at the next tick.
func newWorker(s *podState, key workerKey) *worker {
	return &worker{state: s, key: key, due: time.Now(), wakeup: make(chan struct{}, 1)}
}

// define takes over the container's current probe; another one takes effect at
// once and counts from zero.
func (w *worker) define(c *corev1.Container) {
	before := w.container
	w.container = c
	if before != nil && !reflect.DeepEqual(w.key.kind.spec(before), w.spec()) {
		w.run, w.atOnce = run{}, true
		w.version++
	}
}

func (w *worker) spec() *corev1.Probe {
	return w.key.kind.spec(w.container)
}

func (w *worker) period() time.Duration {
	if seconds := w.spec().PeriodSeconds; seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return defaultPeriod
}

// observe looks at the container's current instance. late means that the pod is
// known already: a worker that is new came into the template while the container
// ran. It returns whether a verdict changed that the caller may not know of.
// (prober/worker.go:doProbe)
func (w *worker) observe(c container, late bool) (changed bool) {
	if c.id == "" {
		return false
	}
	if c.id != w.containerID {
		changed = w.newInstance(c, late)
	}
	if c.running && w.seen.IsZero() {
		w.seen = time.Now()
	}
	if w.finished || w.onHold || c.running && !w.state.ended {
		return changed
	}
	if !c.exited && w.seen.IsZero() && !w.state.ended {
		return changed // it is being started
	}
	w.state.set(w.containerID, w.key.kind, plan.ProbeFailure)
	if w.state.ended || c.exited && !w.restarts(c) {
		w.finished = true
		w.state.set(w.containerID, w.key.kind, "")
	}
	return changed
}

func (w *worker) restarts(c container) bool {
	return w.state.restartsAll || plan.ContainerShouldRestart(w.state.pod, w.container, c.exitCode)
}

// newInstance gives the initial verdict about a container and ends a hold. A
// container that was there before the agent gets none, except that a sidecar which
// had started keeps the verdict of its startup probe; so does a container that had
// started when the template got a startup probe.
func (w *worker) newInstance(c container, late bool) (changed bool) {
	s, k := w.state, w.key.kind
	isNew := w.containerID == ""
	s.set(w.containerID, k, "")
	delete(s.failures, w.containerID)
	w.containerID, w.run, w.onHold, w.finished = c.id, run{}, false, false
	w.seen = time.Time{}
	w.atOnce = k == readiness
	if isNew && c.running && c.startedAt.Before(s.manager.started) {
		w.spread()
	}
	// What follows an instance that was seen is this agent's, whatever the clock said.
	survived := isNew && c.running && plan.StartedByEarlierAgent(c.startedAt, s.manager.started)
	switch {
	case k == startup && c.wasStarted && (isNew && late || survived && podspec.IsSidecar(w.container)):
		return s.set(c.id, k, plan.ProbeSuccess)
	case !survived:
		s.set(c.id, k, k.initial())
	}
	return false
}

// spread puts the first tick at a random point of the period when the agent has
// just started, so that the containers it finds are not all probed at once.
// (prober/worker.go:run)
func (w *worker) spread() {
	if w.period() > time.Since(w.state.manager.started) {
		w.atOnce = false
		w.due = time.Now().Add(rand.N(w.period())) //nolint:gosec // spreads load
	}
}

// mayProbe reports whether there is anything to probe now.
func (w *worker) mayProbe() bool {
	c := w.state.containers[w.key.container]
	if w.onHold || w.finished || w.state.ended || !c.running || c.id != w.containerID {
		return false
	}
	return w.state.hasStarted(w.key.container) != (w.key.kind == startup)
}

// adjust starts or ends the worker's goroutine, or has it look at its timer.
func (w *worker) adjust() {
	if w.finished {
		w.stop()
		return
	}
	if w.cancel != nil {
		if w.atOnce || w.idle == w.mayProbe() {
			w.wake()
		}
		return
	}
	ctx, cancel := context.WithCancel(w.state.manager.ctx)
	w.cancel, w.idle = cancel, false
	w.state.manager.workers.Go(func() {
		defer cancel()
		w.guardedLoop(ctx)
	})
}

func (w *worker) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// stop ends the goroutine, and the probe it may be in.
func (w *worker) stop() {
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// guardedLoop is the boundary that a panic does not pass: the worker continues after a
// while.
func (w *worker) guardedLoop(ctx context.Context) {
	for {
		err := panics.Contain(w.state.manager.logger, string(w.key.kind)+" probes of container "+w.key.container, func() error {
			w.loop(ctx)
			return nil
		})
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(defaultPeriod):
		}
	}
}

func (w *worker) loop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if wait := w.wait(); wait == parked {
			timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wakeup:
		case <-timer.C:
			w.tick(ctx)
		}
	}
}

// wait is the time until the next tick. The phase continues while there is nothing to
// probe.
func (w *worker) wait() time.Duration {
	m := w.state.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if !w.mayProbe() {
		w.idle = true
		return parked
	}
	now := time.Now()
	switch late := now.Sub(w.due); {
	case w.atOnce:
		w.atOnce, w.due = false, now
	case w.idle && late > 0:
		w.due = w.due.Add((late/w.period() + 1) * w.period())
	}
	w.idle = false
	return max(w.due.Sub(now), 0)
}

// advance sets the next tick. Of ticks that a slow probe has missed, the last one
// is made up for.
func (w *worker) advance() {
	w.state.manager.mu.Lock()
	defer w.state.manager.mu.Unlock()
	w.due = w.due.Add(w.period())
	if late := time.Since(w.due); late > 0 {
		w.due = w.due.Add(late / w.period() * w.period())
	}
}

// tick probes once.
func (w *worker) tick(ctx context.Context) {
	t, ok := w.target()
	if ctx.Err() != nil || !ok {
		return
	}
	if !t.early() {
		logger := w.state.manager.logger.WithValues("podUID", t.pod.UID)
		_ = panics.Contain(logger, string(t.kind)+" probe of container "+t.container.Name, func() error {
			w.probe(ctx, t)
			return nil
		})
	}
	w.advance()
}

// target is the probe to be run now; false if there is none.
func (w *worker) target() (target, bool) {
	w.state.manager.mu.Lock()
	defer w.state.manager.mu.Unlock()
	c := w.state.containers[w.key.container]
	return target{
		kind:      w.key.kind,
		pod:       w.state.pod,
		container: w.container,
		spec:      w.spec(),
		id:        c.id,
		ip:        w.state.ip,
		startedAt: w.started(c),
		version:   w.version,
	}, w.mayProbe()
}

// started is when the container started: no later than it was seen to run, or a
// clock that was set back would put the probe off until it has caught up; and by the
// time of this process from then on, or one that was set forward would cut the delay.
func (w *worker) started(c container) time.Time {
	if c.startedAt.After(w.seen) {
		return w.seen
	}
	return w.seen.Add(-w.seen.Sub(c.startedAt))
}

func (w *worker) probe(ctx context.Context, t target) {
	m := w.state.manager
	out, err := probeWithRetries(ctx, m.prober, t)
	if ctx.Err() != nil {
		return
	}
	m.report(t, out, err)
	if err != nil {
		return // a prober's own error says nothing about the container
	}
	if w.record(ctx, t, out) {
		m.onChange(t.pod.UID)
	}
}

// record takes the result of a probe and returns whether the verdict changed.
func (w *worker) record(ctx context.Context, t target, out outcome) (changed bool) {
	s := w.state
	s.manager.mu.Lock()
	defer s.manager.mu.Unlock()
	if ctx.Err() != nil || w.onHold || w.finished || w.containerID != t.id || w.version != t.version {
		return false
	}
	result := out.verdict()
	verdict := w.run.add(result, t.spec)
	w.note(result, out.brief)
	if !verdict {
		return false
	}
	changed = s.set(t.id, t.kind, result)
	if t.kind.ends(result) {
		w.onHold, w.run = true, run{}
	}
	if t.kind == startup && result == plan.ProbeSuccess {
		s.wake(w.key.container)
	}
	return changed
}

// note keeps the last failure of what can kill.
func (w *worker) note(result plan.ProbeResult, brief string) {
	failures, kind := w.state.failures, w.key.kind
	switch {
	case kind == readiness:
	case result == plan.ProbeFailure:
		failures[w.containerID] = &failure{kind: kind, message: brief, count: w.run.count}
	case failures[w.containerID] != nil && failures[w.containerID].kind == kind:
		delete(failures, w.containerID)
	}
}
