// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Words of the kubelet. (kubelet kubelet.go:SyncPod, events/event.go)
const (
	networkNotReadyReason  = "NetworkNotReady"
	networkNotReadyMessage = "network is not ready"
)

// syncer is the state Syncing.
type syncer struct {
	*scope
	saver *saver
	// exited are the containers that were dead at the last look.
	exited map[string]bool
	// askAgain is when the runtime is asked once more about images that it has not
	// answered about; zero if there are none.
	askAgain time.Time
}

// step keeps the containers as the template says: observe, plan, carry out,
// observe again. (kubelet kubelet.go:SyncPod)
func (s *syncer) step(ctx context.Context, d desired, usable Usable) (time.Duration, error) {
	if d.pod == nil || usable.Reason == v1alpha1.ReasonRuntimeNotReady {
		// Nothing to do, or no way to ask: the news will wake the worker.
		s.report(d, s.unseen(), usable)
		return jitter(resyncInterval), nil
	}
	s.takeOver(d)
	if s.parts.forAnother(d.pod) {
		s.cfg.Executor.Outdate(s.id.UID)
	}
	s.cfg.Executor.NoteExits(ctx, s.id.UID)
	observed, err := s.cfg.Runtime.PodStatus(ctx, s.id.UID)
	if err != nil {
		s.report(d, s.unseen(), usable)
		return s.observeRetry(), fmt.Errorf("observe: %w", err)
	}
	s.resumeKills(ctx, d)
	if !s.parts.busy() {
		s.removeDead(ctx, observed)
	}
	if usable.OK {
		d = s.admission(d, observed)
	}
	if d.rejected() {
		s.reject(d, usable)
		return jitter(errorDelay), nil
	}
	delay, err := s.keep(ctx, d, observed, usable)
	if left, ok := s.parts.again(); ok {
		delay = min(delay, left)
	}
	return delay, err
}

// keep reports what was observed, and has it made what the template says.
func (s *syncer) keep(ctx context.Context, d desired, observed *plan.PodStatus, usable Usable) (time.Duration, error) {
	s.settleOwed(d, observed)
	s.mem.noteExits(d.pod, observed)
	may := usable.OK && d.held == ""
	if !may {
		s.recallRequests(d, observed)
	} else if s.prepare(ctx, d, observed) {
		return 0, nil
	}
	r := s.look(ctx, d, observed, false)
	if s.parts.busy() && plan.Ended(r.pod.Phase) {
		return jitter(resyncInterval), nil // what was killed may be about to be started again
	}
	ended := d.terminates(&r.pod)
	if ended {
		s.noteEnded(d, observed)
	}
	s.report(d, r, usable)
	if ended {
		s.advanceEnded()
		return 0, nil
	}
	if !may {
		return jitter(resyncInterval), nil
	}
	if s.advanceRequests(ctx, d, observed, &r.pod) {
		s.wakeUp() // to plan with that
		return 0, nil
	}
	if err := s.networkError(ctx, d, observed); err != nil {
		s.warn(networkNotReadyReason, networkNotReadyMessage+": "+err.Error())
		return networkDelay, fmt.Errorf("%s: %w", networkNotReadyMessage, err)
	}
	delay, err := s.carryOut(ctx, d, observed, r, usable)
	if left, ok := s.untilImages(); ok {
		delay = min(delay, left)
	}
	return delay, err
}

// prepare looks at what requests ask and at what changes wait for. It says whether the change
// that came meanwhile is to be handled first.
func (s *syncer) prepare(ctx context.Context, d desired, observed *plan.PodStatus) (again bool) {
	s.advanceRequests(ctx, d, observed, s.mem.podStatus())
	s.awaitImages(ctx, d, observed)
	return s.mem.changed()
}

// removeDead removes older dead instances of containers that have exited since
// the last look. (kubelet kubelet.go:cleanUpContainersInPod)
func (s *syncer) removeDead(ctx context.Context, observed *plan.PodStatus) {
	exited := map[string]bool{}
	instances := map[string]int{}
	for _, c := range slices.Backward(observed.Containers) {
		instances[c.Name]++
		if c.State != plan.ContainerExited {
			continue
		}
		exited[c.ID] = true
		if s.exited[c.ID] || instances[c.Name] < 2 {
			continue
		}
		if err := s.cfg.Executor.RemoveDead(ctx, observed, c.ID); err != nil {
			s.log.Info("Failed to remove dead containers; garbage collection will retry", "container", c.Name, "reason", err.Error())
		}
	}
	s.exited = exited
}

// advanceEnded moves on: the workload ended by itself.
func (s *syncer) advanceEnded() {
	s.advance(stateInput{terminate: true})
	s.wakeUp()
}

// carryOut plans and has the plan carried out.
func (s *syncer) carryOut(ctx context.Context, d desired, observed *plan.PodStatus, r report, usable Usable) (time.Duration, error) {
	s.updateProber(d, observed, &r.pod)
	s.cfg.PodDir.Follow(d.pod)
	in := s.inputOf(ctx, d, observed, &r.pod)
	began := time.Now()
	actions := plan.Compute(in)
	s.cfg.Metrics.planned(began)
	if !needed(actions) {
		s.runs(ctx, d, observed, r, actions, usable)
		return jitter(resyncInterval), nil
	}
	kills, rest := actions.Apart(in.Pod)
	if len(kills) == 0 && wholePod(actions) && s.parts.busy() {
		return jitter(resyncInterval), nil // their end wakes the worker
	}
	for _, part := range kills {
		s.beginPart(ctx, d, in, part)
	}
	s.parts.dropErrors()
	if actions = rest; !needed(actions) {
		return jitter(resyncInterval), nil
	}
	if len(kills) > 0 {
		in.UnderWay = s.parts.underWay()
	}
	// A kill saves before its first side effect; what starts carries all that a
	// restart needs on itself, so that nothing waits for the disk here.
	s.saver.save()
	outcome := s.execute(ctx, d, in, actions)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if s.mem.peek().ends() {
		return 0, nil
	}
	return s.settle(ctx, d, observed, actions, outcome, usable)
}

// updateProber has probed what was observed and reported.
func (s *syncer) updateProber(d desired, observed *plan.PodStatus, st *corev1.PodStatus) {
	s.cfg.Prober.Update(s.probed(d), withoutStarts(observed, s.cfg.Executor.Starting(s.id.UID)), st)
}

// settle takes over what a plan came to, and says when to look again.
func (s *syncer) settle(ctx context.Context, d desired, observed *plan.PodStatus, actions plan.Actions, outcome plan.SyncOutcome, usable Usable) (time.Duration, error) {
	s.remember(outcome)
	killRetry := time.Duration(math.MaxInt64)
	if wholePod(actions) {
		killRetry = s.killRetryOf(outcome)
	}
	after, err := s.cfg.Runtime.PodStatus(ctx, s.id.UID)
	if err != nil {
		return min(jitter(errorDelay), killRetry), fmt.Errorf("observe after a sync: %w", err)
	}
	s.mem.noteRan(after)
	s.settleOwed(d, after)
	s.mem.noteExits(d.pod, after)
	s.awaitImages(ctx, d, after)
	r := s.look(ctx, d, after, false)
	s.updateProber(d, after, &r.pod)
	if s.parts.busy() && plan.Ended(r.pod.Phase) {
		return 0, nil // as above
	}
	next := plan.Compute(s.inputOf(ctx, d, after, &r.pod))
	ended := d.terminates(&r.pod)
	if ended && createdAny(observed, after) && s.waits.keeps == nil {
		// It ended before it was seen to run: it was this template nevertheless.
		s.mem.noteTemplate(d)
	} else if s.noteTemplate(d, after, next) && !starts(actions) {
		s.dropVolumes(ctx, d)
	}
	s.report(d, r, usable)
	if ended {
		s.advanceEnded()
		return 0, nil
	}
	delay, err := s.afterSync(outcome, actions, next)
	delay = min(delay, killRetry)
	if diedMeanwhile(observed, after) {
		// Its event came while an operation was under way.
		delay = 0
	}
	return delay, err
}

// afterSync is when to look again after a plan was carried out.
// (kubelet pod_workers.go:completeWork)
func (s *syncer) afterSync(outcome plan.SyncOutcome, actions, next plan.Actions) (time.Duration, error) {
	if outcome.Err != nil {
		delay := jitter(errorDelay)
		if !outcome.BackoffUntil.IsZero() {
			delay = min(delay, s.until(outcome.BackoffUntil))
		}
		return max(0, delay), fmt.Errorf("carry out the plan: %w", outcome.Err)
	}
	if !outcome.BackoffUntil.IsZero() {
		return max(0, s.until(outcome.BackoffUntil)), nil
	}
	switch {
	case !needed(next):
		return jitter(resyncInterval), nil
	case reflect.DeepEqual(actions, next):
		// The same once more is not done in a hurry.
		return repeatDelay, nil
	}
	return 0, nil
}

// until is the time that is left, by the clock that made t.
func (s *scope) until(t time.Time) time.Duration { return t.Sub(s.cfg.Clock.Now()) }

// execute carries a plan out and stays awake: a deletion that arrives meanwhile
// cancels starts, and shortens kills.
func (s *syncer) execute(ctx context.Context, d desired, in plan.Input, actions plan.Actions) plan.SyncOutcome {
	observed := in.Observed
	request := s.request(d, in, actions)
	request.Beside = s.parts.busy()
	var outcome plan.SyncOutcome
	begun := time.Now()
	attend(ctx, s.wake,
		func(ctx context.Context) {
			request.Actions = s.withImages(ctx, in, actions)
			outcome = s.cfg.Executor.SyncPod(ctx, request)
		},
		func(cancel func()) {
			now := s.mem.peek()
			if now.ends() {
				cancel()
				s.parts.cancel()
				s.cfg.Executor.Shorten(s.id.UID, s.endGrace(now))
			}
			if now.pod != d.pod {
				s.cfg.Executor.Outdate(s.id.UID)
			}
			s.cfg.Executor.NoteExits(ctx, s.id.UID)
			s.refresh(ctx, d, begun)
		})
	s.keepBackoff(request.Backoff)
	s.keepActuated(request.Actuated, observed)
	s.pulls.spent(in.Pod, request.Actions.Images, outcome)
	s.resize.failed = outcome.ResizeError
	s.mem.setKillError(cmp.Or(outcome.KillError, s.parts.killError()))
	return outcome
}

// request has a plan carried out.
func (s *syncer) request(d desired, in plan.Input, actions plan.Actions) plan.SyncRequest {
	return plan.SyncRequest{
		Pod: in.Pod, Observed: in.Observed, Actions: actions,
		Backoff: s.mem.backoff(), BackoffPolicy: plan.NewBackoffPolicy(d.restartBackoff).AtLeast(s.cfg.MinRestartBackoff),
		Actuated: copyActuated(s.mem.actuated()), RequestedBy: plan.RequestedByShim, ChangedBy: d.changedBy, Forgiven: s.forgiven(),
	}
}

// inputOf is what the plan of a sync decides on.
func (s *syncer) inputOf(ctx context.Context, d desired, observed *plan.PodStatus, st *corev1.PodStatus) plan.Input {
	in := s.planInput(d, observed)
	in.OutsideCgroup = s.cfg.PodDir.OutsideCgroup(ctx, d.pod, observed)
	if pod := s.planned(d, in.OutsideCgroup); pod != d.pod {
		// What is kept is killed for no difference.
		in.Pod, in.Definitions, in.Unconfirmed = pod, plan.Define(pod), true
	}
	in.RestartAllContainers = plan.AllContainersRestarting(st)
	return in
}

// needed says whether a plan has anything to carry out.
func needed(a plan.Actions) bool {
	return starts(a) || a.Resizes() || a.KillPod || len(a.ContainersToKill) > 0 || len(a.ContainersToReset) > 0
}

// wholePod says that a plan ends more than single containers.
func wholePod(a plan.Actions) bool {
	return a.KillPod || a.CreateSandbox || len(a.ContainersToReset) > 0
}

// starts says that a plan prepares the pod's place before it starts something.
func starts(a plan.Actions) bool {
	return a.CreateSandbox || len(a.InitContainersToStart) > 0 || len(a.ContainersToStart) > 0 || len(a.EphemeralContainersToStart) > 0
}

// networkError tells why what is planned cannot be started for want of the pod network.
func (s *syncer) networkError(ctx context.Context, d desired, observed *plan.PodStatus) error {
	err := s.cfg.NetworkReady()
	if err == nil || s.planned(d, s.cfg.PodDir.OutsideCgroup(ctx, d.pod, observed)).Spec.HostNetwork {
		return nil
	}
	return err
}

// planned is the pod that is planned for. As long as the sandbox waits, that is what is in
// it, unless it runs outside the pod's cgroup and is started over.
func (s *syncer) planned(d desired, outsideCgroup bool) *corev1.Pod {
	if s.waits.keeps != nil && s.waits.pod == d.pod && !outsideCgroup {
		return s.waits.keeps
	}
	return d.pod
}
