// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// turns makes the kills of a pod wait for those that end before them. With nil
// nothing waits. (kubelet kuberuntime_termination_order.go:terminationOrdering)
type turns struct {
	// of has the turns of these kills, and those of earlier ones that they wait for; own
	// names the first.
	of  map[string]*turn
	own map[string]bool
	// most is the shortest grace period that the pod's kills were given since, in seconds; nil if none was.
	// A kill that was decided with more, or for what is not wanted any more, is not tried again.
	// Executor.mu guards it.
	most *int64
}

// turn is a container's, the first one's to end if two run under one name.
type turn struct {
	once sync.Once
	done chan struct{} // closed when it has ended

	mu sync.Mutex
	// waiters is how many kills wait for it, or will once their hook has ended; passed is
	// closed, and replaced, when one does not any more.
	waiters int
	passed  chan struct{}
}

// takeTurns returns the turns of kills that begin together, until leave is called. Some may wait for
// kills of the pod that began earlier.
func (e *Executor) takeTurns(podUID types.UID, kills []plan.Kill) (t *turns, leave func()) {
	t = &turns{of: map[string]*turn{}, own: map[string]bool{}}
	for _, k := range kills {
		t.of[k.Name], t.own[k.Name] = &turn{done: make(chan struct{}), passed: make(chan struct{})}, true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range kills {
		for _, before := range k.WaitsFor {
			t.join(before, e.turns[podUID])
		}
	}
	if e.turns[podUID] == nil {
		e.turns[podUID] = map[*turns]struct{}{}
	}
	e.turns[podUID][t] = struct{}{}
	return t, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.turns[podUID], t)
		if len(e.turns[podUID]) == 0 {
			delete(e.turns, podUID)
		}
	}
}

// join has the end of a container known whose kill is one of other turns.
func (t *turns) join(name string, others map[*turns]struct{}) {
	for other := range others {
		if t.of[name] == nil && other.own[name] {
			t.of[name] = other.of[name]
		}
	}
	if waitedFor := t.of[name]; waitedFor != nil {
		waitedFor.mu.Lock()
		waitedFor.waiters++
		waitedFor.mu.Unlock()
	}
}

// pass says that a kill does not wait for these containers any more.
func (t *turns) pass(waitsFor []string) {
	if t == nil {
		return
	}
	for _, before := range waitsFor {
		waitedFor := t.of[before]
		if waitedFor == nil {
			continue
		}
		waitedFor.mu.Lock()
		waitedFor.waiters--
		close(waitedFor.passed)
		waitedFor.passed = make(chan struct{})
		waitedFor.mu.Unlock()
	}
}

// awaited waits for delay and reports that another kill still waits for the container to end. It returns
// false at once when none does any more, or ctx ends.
func (t *turns) awaited(ctx context.Context, name string, delay time.Duration) bool {
	if t == nil || !t.own[name] {
		return false
	}
	over := time.NewTimer(delay)
	defer over.Stop()
	for {
		waitedFor := t.of[name]
		waitedFor.mu.Lock()
		waiters, passed := waitedFor.waiters, waitedFor.passed
		waitedFor.mu.Unlock()
		if waiters == 0 {
			return false
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return false
		case <-over.C:
			return true
		}
	}
}

// ends is closed when a container has ended; nil if no kill of it is under way.
func (t *turns) ends(name string) <-chan struct{} {
	if t == nil || t.of[name] == nil {
		return nil
	}
	return t.of[name].done
}

// mustWait is whether one of these containers is being killed and has not ended yet.
func (t *turns) mustWait(waitsFor []string) bool {
	return slices.ContainsFunc(waitsFor, func(before string) bool {
		ends := t.ends(before)
		if ends == nil {
			return false
		}
		select {
		case <-ends:
			return false
		default:
			return true
		}
	})
}

// wait waits for the end of these containers, until ctx ends.
func (t *turns) wait(ctx context.Context, waitsFor []string) {
	for _, before := range waitsFor {
		ends := t.ends(before)
		if ends == nil {
			continue
		}
		select {
		case <-ends:
		case <-ctx.Done():
			return
		}
	}
}

// ended says that a container has been stopped. One that could not be stopped
// never ends, and those behind it wait out their time.
func (t *turns) ended(name string) {
	if t == nil || !t.own[name] {
		return
	}
	own := t.of[name]
	own.once.Do(func() { close(own.done) })
}

// inTurn carries a kill out. While others wait for its container one that failed is tried again, as
// a kill of its own: else the next try would come when they have waited out their time. last is
// the last of them.
func (k *kill) inTurn(ctx context.Context) (last *kill, err error) {
	waitsFor, passed := slices.Clone(k.WaitsFor), false
	k.passed = func() {
		if !passed {
			passed = true
			k.turns.pass(waitsFor)
		}
	}
	defer k.passed()
	last, err = k, k.carryOut(ctx)
	for failures := 1; k.e.differences.RetryInTurn && last.hasFailed(ctx, err); failures++ {
		if !k.turns.awaited(ctx, k.Name, plan.KillRetryAfter(failures)) {
			break
		}
		if k.e.isGone(ctx, k.ID) {
			k.turns.ended(k.Name)
			return last, nil
		}
		again := k.e.newKill(k.pod, k.Kill)
		again.turns, again.passed, again.again = k.turns, k.passed, true
		if passed {
			again.WaitsFor = nil
		}
		failed := again.carryOut(ctx)
		if errors.Is(failed, errOutdated) {
			break
		}
		last, err = again, failed
	}
	return last, err
}

// errOutdated: a kill is not tried again by a decision that is out of date.
var errOutdated = errors.New("the kill was decided for what is not wanted any more, or with more time")

// hasFailed reports that the runtime did not carry the kill out and that its record is closed.
func (k *kill) hasFailed(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrInterrupted) || errors.Is(err, errMayRun) || k.Container == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open == nil || k.rec.Phase == v1alpha1.KillPhaseDone
}

// isGone reports that a container has exited, or that the runtime does not know it.
func (e *Executor) isGone(ctx context.Context, id string) bool {
	status, err := e.containerStatus(ctx, id)
	return runtimeerror.IsNotFound(err) || err == nil && status.State == plan.ContainerExited
}

// Outdate has no kill of a pod tried again that is under way: it was decided for a template that is not
// wanted any more, and what is wanted is for the caller to decide.
func (e *Executor) Outdate(podUID types.UID) { e.limitTurns(podUID, 0) }

// limitTurns notes the most seconds that a kill may have had when it is tried again.
func (e *Executor) limitTurns(podUID types.UID, seconds int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for t := range e.turns[podUID] {
		if t.most == nil || seconds < *t.most {
			t.most = &seconds
		}
	}
}
