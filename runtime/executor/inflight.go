// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The causes of a phase's end before what it waits for: its time is over, or the container has
// exited.
var (
	errTimeOver = errors.New("the grace period is over")
	errExited   = errors.New("the container has exited")
)

// kill is one kill under way.
type kill struct {
	e *Executor
	// pod is whose container it is; events go to it.
	pod *corev1.Pod
	plan.Kill
	turns *turns
	// passed, if set, is called when the kill does not wait for others any more. again: others wait
	// for a container whose kill has failed, and this is the next try.
	passed func()
	again  bool
	// before is the container as it was when the kill began; nil if the runtime
	// did not say. missing: the runtime did not know it.
	before  *plan.ContainerStatus
	missing bool
	// open is what is left of a kill that was cut off, nil if this one is new;
	// limitTo is the grace period that its caller gives it now, nil if none.
	open    *plan.KillProgress
	limitTo *plan.Grace
	// left is what is left of the grace period, in whole seconds. Only the kill
	// itself touches it.
	left int64
	// unwatched: the container left before this kill was continued; its time was
	// over at until.
	unwatched bool
	until     time.Time
	// begun is when the grace period began, and ends when it is over, both by this
	// process's monotonic clock.
	begun, ends time.Time
	// shortened wakes a StopContainer under way.
	shortened chan struct{}

	// publishing keeps the records in order on their way to the sink.
	publishing sync.Mutex

	mu  sync.Mutex
	rec v1alpha1.KillRecord
	// limit is the end that a shortening set; zero if there was none.
	limit time.Time
	// forcedFrom is from when on the runtime killed by force, by the calls of
	// StopContainer that saw the container stop, and stoppedAt when the first of them
	// returned; zero if there was none.
	forcedFrom, stoppedAt time.Time
	// stopEnd is when the last call of StopContainer was to end in force; zero if
	// there was none.
	stopEnd time.Time
	// exitedIn is the phase in which the container was seen to have exited, before it was asked
	// to stop; empty if it was not.
	exitedIn v1alpha1.KillPhase
	// hookEnded and waitEnded are when hook and wait had ended, and asked is when StopContainer was
	// called first, by this process; zero before.
	hookEnded, waitEnded, asked time.Time
	// fresh is how many seconds the phase had when it began, 0 once the container
	// surely knows of it.
	fresh int64
	// timer ends the phase at phaseEnd, and cancel ends it now.
	timer    *time.Timer
	phaseEnd time.Time
	cancel   context.CancelCauseFunc
}

// Shorten gives every kill of a pod that is under way less time: it has to end
// within graceSeconds from now (within 2 s at least, once the container was
// asked to stop), or earlier if it had to before. A preStop hook is cancelled at
// its new deadline, a wait ends, and a StopContainer under way is followed by
// another with the smaller timeout; the first is never cancelled, because that
// would keep the container from ever being killed.
func (e *Executor) Shorten(podUID types.UID, graceSeconds int64) {
	e.limitTurns(podUID, graceSeconds)
	for _, k := range e.underWay(podUID) {
		k.shorten(time.Now(), graceSeconds)
	}
}

// underWay returns the kills of a pod that are under way.
func (e *Executor) underWay(podUID types.UID) []*kill {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.inflight[podUID]))
}

// Interrupt cuts every kill under way, and those to come, short: the process is
// about to end. They return ErrInterrupted and their records stay open, so that
// Resume can finish them. A container that was asked to stop continues to.
func (e *Executor) Interrupt() {
	e.mu.Lock()
	e.interrupted = true
	var kills []*kill
	for _, ofPod := range e.inflight {
		for k := range ofPod {
			kills = append(kills, k)
		}
	}
	e.mu.Unlock()
	for _, k := range kills {
		k.interrupt()
	}
}

// enter puts a kill among those under way.
func (e *Executor) enter(k *kill) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.interrupted {
		return ErrInterrupted
	}
	if k.again && k.OutOfDate(k.turns.most) {
		return errOutdated
	}
	if e.inflight[k.pod.UID] == nil {
		e.inflight[k.pod.UID] = map[*kill]struct{}{}
	}
	e.inflight[k.pod.UID][k] = struct{}{}
	return nil
}

func (e *Executor) leave(k *kill) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.inflight[k.pod.UID], k)
	if len(e.inflight[k.pod.UID]) == 0 {
		delete(e.inflight, k.pod.UID)
	}
}

func (e *Executor) isInterrupted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.interrupted
}

// begin starts a phase: its context ends when the grace period that is left is
// over, earlier when it is shortened. end gives what the phase took back, in
// whole seconds: the time it took is rounded down and taken off.
func (k *kill) begin(ctx context.Context, phase v1alpha1.KillPhase) (phaseCtx context.Context, end func()) {
	// To keep the record may take a moment, which the grace period does not pay.
	k.change(func(rec *v1alpha1.KillRecord) {
		rec.Phase, k.fresh = phase, 0
		if phase == v1alpha1.KillPhasePreStop {
			k.fresh = k.left
		}
	})
	started := time.Now()
	phaseCtx, cancel := context.WithCancelCause(ctx)
	k.mu.Lock()
	k.applyLimit() // of a shortening between the phases
	k.cancel = cancel
	k.phaseEnd = started.Add(seconds(k.left))
	if k.limit.IsZero() {
		k.ends = k.phaseEnd // the next process counts by it
	}
	k.timer = time.AfterFunc(seconds(k.left), func() { cancel(errTimeOver) })
	k.mu.Unlock()
	if k.e.isInterrupted() {
		k.interrupt()
	}
	return phaseCtx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.timer.Stop()
		k.timer, k.cancel = nil, nil
		cancel(nil)
		k.left -= wholeSeconds(time.Since(started))
		k.applyLimit()
	}
}

// applyLimit takes a shortening into account. k.mu is held.
func (k *kill) applyLimit() {
	if !k.limit.IsZero() {
		k.left = plan.Left(k.left, secondsUntil(k.limit))
	}
}

// shorten moves the end of the grace period to an earlier time.
func (k *kill) shorten(now time.Time, graceSeconds int64) {
	if !k.setLimit(now, graceSeconds) {
		return
	}
	k.publish()
	select {
	case k.shortened <- struct{}{}:
	default: // already notified
	}
}

func (k *kill) setLimit(now time.Time, graceSeconds int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	limit := now.Add(seconds(graceSeconds))
	if k.rec.Phase == v1alpha1.KillPhaseDone || !limit.Before(k.ends) {
		return false
	}
	k.limit, k.ends = limit, limit
	if k.timer != nil {
		k.timer.Reset(time.Until(limit))
		k.phaseEnd = limit
	}
	grace := &k.rec.Grace
	if grace.ShortenedFromSeconds == nil {
		grace.ShortenedFromSeconds = new(grace.Seconds)
	}
	given := plan.ShortenedGrace(wholeSeconds(limit.Sub(k.begun)))
	grace.ShortenedToSeconds = &graceSeconds
	grace.Seconds, grace.Source = given.Seconds, given.Source
	grace.Deadline = &metav1.MicroTime{Time: k.e.clock.Now().Add(time.Until(limit))}
	return true
}

// interrupt ends the phase the kill is in.
func (k *kill) interrupt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		k.cancel(ErrInterrupted)
	}
}

// timeIsOver reports whether the phase has used its time up.
func (k *kill) timeIsOver() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !time.Now().Before(k.phaseEnd)
}

// phaseError is why a kill must not continue after a phase: its caller gave up, or
// Interrupt did. Time that is over is no reason.
func (k *kill) phaseError(ctx, phaseCtx context.Context) error {
	if errors.Is(context.Cause(phaseCtx), ErrInterrupted) {
		return ErrInterrupted
	}
	return ctx.Err()
}

// limitLeft is what is left of the grace period after a shortening, in seconds.
func (k *kill) limitLeft() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.limit.IsZero() {
		return math.MaxInt32
	}
	return secondsUntil(k.limit)
}

// wholeSeconds rounds down, as the kubelet does with what a hook or a wait took.
func wholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }

// secondsUntil rounds up: what a fraction of a second cost is not taken off.
func secondsUntil(t time.Time) int64 {
	return int64(math.Ceil(time.Until(t).Seconds()))
}

// maxSeconds is a hundred years: more would overflow a Duration.
const maxSeconds = 100 * 365 * 24 * 3600

// seconds is a duration of that many seconds.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, maxSeconds)) * time.Second
}
