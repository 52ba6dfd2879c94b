// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/objects"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// The waits between two attempts of the loop for one pod.
// (kubelet util/goroutinemap/exponentialbackoff)
const (
	firstRetry  = 500 * time.Millisecond
	longestWait = 2*time.Minute + 2*time.Second
)

// objectPatience bounds the wait for objects that the manager may still send: a new
// workload arrives before what it refers to. The kubelet waits 1 s for its own watch.
const objectPatience = 5 * time.Second

// podVolumes is what the loop knows of a pod. Manager.mu guards it, but for what
// belongs to the pass.
type podVolumes struct {
	uid types.UID
	// wanted is the pod whose volumes are to be there; nil means none.
	wanted *corev1.Pod
	// asked counts the wishes, answered is the last that a pass has seen.
	asked, answered int
	// err is what the last pass failed with.
	err error
	// pending is the condition of what could not be changed yet.
	pending *corev1.PodCondition
	// passed is closed and replaced when a pass ends.
	passed  chan struct{}
	running bool
	// retryAt is when the next attempt is due without a new wish; zero means never.
	retryAt time.Time
	wait    time.Duration

	// shown is the pod whose files are kept up to date: wanted, or what Follow has said
	// of a pod that an earlier process set up; nil means none. refs is what it refers to.
	shown *corev1.Pod
	refs  []reference
	// followed is what Follow was called with last, and ends says that all volumes are
	// to go for good.
	followed *corev1.Pod
	ends     bool
	// stale: something that files show has changed.
	stale bool
	// refreshAt is when the files are brought up to date in any case; zero means never.
	refreshAt   time.Time
	refreshWait time.Duration
	// refreshErr is what the last refresh failed with.
	refreshErr string

	// notUpdated are the volumes whose files could not be brought up to date for so long that people
	// should know.
	notUpdated []fileError
	// outdated: the pass has left files as they were. It belongs to who made running true.
	outdated bool

	// sources are what volumes with files were last set up for, by the path of the mark that says so
	// on the disk. They belong to who made running true.
	sources map[string]string

	// busy orders passes and subPaths.
	busy sync.Mutex
	// checked are the hostPaths that were checked since the start of the process:
	// type and path by volume. It belongs to the holder of busy.
	checked map[string]string
}

// entry finds or makes what is known of a pod; mu is held.
func (m *Manager) entry(uid types.UID) *podVolumes {
	p := m.pods[uid]
	if p == nil {
		p = &podVolumes{uid: uid, passed: make(chan struct{}), checked: map[string]string{}, sources: map[string]string{}}
		m.pods[uid] = p
	}
	return p
}

// await says what a pod wants and waits for the pass that has seen it, and for a short
// time for further ones while objects have not been received.
func (m *Manager) await(ctx context.Context, uid types.UID, wanted *corev1.Pod) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	p := m.entry(uid)
	p.wanted, p.followed, p.ends = wanted, nil, wanted == nil
	m.show(p, wanted)
	p.asked++
	mine := p.asked
	m.mu.Unlock()
	m.kick()
	patience, late := time.NewTimer(objectPatience), false
	defer patience.Stop()
	for {
		m.mu.Lock()
		answered, err, passed := p.answered, p.err, p.passed
		m.mu.Unlock()
		if answered >= mine && (late || !errors.Is(err, objects.ErrNotReceived)) {
			return err
		}
		select {
		case <-passed:
		case <-patience.C:
			late = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (m *Manager) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run makes volumes as they are wanted until the context is done, and returns when
// no pass is under way any more. (kubelet volumemanager/reconciler/reconciler.go)
func (m *Manager) Run(ctx context.Context) error {
	var passes sync.WaitGroup
	defer passes.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		case <-timer.C:
		}
		if next := m.startDue(ctx, &passes); next > 0 {
			timer.Reset(next)
		}
	}
}

// startDue starts a pass for each pod that is due, and returns when the next one
// will be; 0 means never.
func (m *Manager) startDue(ctx context.Context, passes *sync.WaitGroup) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var next time.Duration
	for _, p := range m.pods {
		if p.running {
			continue
		}
		do := m.due(ctx, p, now)
		if do == nil {
			next = sooner(next, p.retryAt, now)
			next = sooner(next, p.refreshAt, now)
			continue
		}
		p.running, p.stale = true, false
		passes.Go(func() {
			_ = panics.Contain(m.config.Logger, "the volumes of pod "+string(p.uid), func() error {
				do()
				return nil
			})
		})
	}
	return next
}

// due is the pass that a pod is due for, nil for none; mu is held. What is not set up
// yet is set up when an object that it may wait for has changed.
func (m *Manager) due(ctx context.Context, p *podVolumes, now time.Time) func() {
	wanted, asked, shown := p.wanted, p.asked, p.shown
	switch {
	case p.asked > p.answered, isDue(p.retryAt, now), p.stale && p.err != nil:
		return func() { m.run(ctx, p.uid, p, wanted, asked) }
	case shown != nil && (p.stale || isDue(p.refreshAt, now)):
		return func() { m.refresh(ctx, p, shown) }
	}
	return nil
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// sooner is the earlier of a wait, 0 for none, and that until a time.
func sooner(wait time.Duration, at, now time.Time) time.Duration {
	if left := at.Sub(now); !at.IsZero() && (wait == 0 || left < wait) {
		return left
	}
	return wait
}

// run carries one pass out and keeps what came of it.
func (m *Manager) run(ctx context.Context, uid types.UID, p *podVolumes, wanted *corev1.Pod, asked int) {
	pending, err := m.guardedPass(ctx, uid, p, wanted)
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errStopped, context.Cause(ctx))
	}
	m.mu.Lock()
	changed := !samePending(p.pending, pending)
	p.err, p.pending, p.answered, p.running = err, pending, asked, false
	p.schedule()
	if p.shown != nil && !p.refreshAt.IsZero() {
		p.scheduleRefresh(nil)
		if p.outdated || p.refreshErr != "" {
			p.refreshAt = time.Now()
		}
	}
	p.outdated = false
	close(p.passed)
	p.passed = make(chan struct{})
	if wanted == nil && err == nil && p.asked == asked {
		delete(m.pods, uid)
	}
	m.mu.Unlock()
	m.kick()
	if changed {
		m.config.Changed(uid)
	}
}

// schedule puts the next attempt off, longer each time, while something is left to
// do; mu is held.
func (p *podVolumes) schedule() {
	if p.err == nil && p.pending == nil {
		p.retryAt, p.wait = time.Time{}, 0
		return
	}
	p.wait = min(max(2*p.wait, firstRetry), longestWait)
	p.retryAt = time.Now().Add(p.wait)
}

// guardedPass is the boundary that a panic does not pass: it fails the pass.
func (m *Manager) guardedPass(ctx context.Context, uid types.UID, p *podVolumes, wanted *corev1.Pod) (pending *corev1.PodCondition, err error) {
	p.busy.Lock()
	defer p.busy.Unlock()
	err = panics.Contain(m.config.Logger, "the volumes of pod "+string(uid), func() (err error) {
		if wanted == nil {
			clear(p.sources)
			return m.tearDownAll(ctx, uid)
		}
		pending, err = m.setUpAll(ctx, p, wanted)
		return err
	})
	return pending, err
}

func samePending(a, b *corev1.PodCondition) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Reason == b.Reason && a.Message == b.Message
}
