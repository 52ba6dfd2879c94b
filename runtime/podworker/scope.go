// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// scope is what the steps of one workload share. All but the memory and the channels
// belongs to the goroutine of the worker.
type scope struct {
	cfg *Config
	id  Identity
	log logr.Logger
	mem *memory
	// wake makes the worker take a step, news the announcer publish; they hold one
	// token each.
	wake, news chan struct{}
	// usable is what the pool says about the runtime; nil until it was seen.
	usable func() *Usable
	// askNode has the node decide about the pod that the memory asks for.
	askNode func()

	// started is how long the first start takes.
	started startWatch

	// waiting is why containers wait, by name. (kubelet reason_cache.go)
	waiting map[string]status.Reason
	// waits is what deliberate changes wait for, and pulls what becomes of that.
	waits imageWaits
	pulls *pulls
	// made is what the containers that are there were made from, and sandbox the pod that
	// the newest sandbox was made from.
	made    plan.Made
	sandbox sandboxOf
	// requests are what KillRequests ask, as they were looked at last.
	requests plan.RequestProgress
	// resume are the kills that an earlier process left behind.
	resume []plan.KillProgress
	// parts are kills of single containers that are under way.
	parts parts
	// killFailures is how often kills have failed since one worked.
	killFailures int
	// oom is what the kernel counts.
	oom oomWatch
	// resize is what was reported about a change of resources.
	resize resize
	// stopped is what was observed when everything had just stopped.
	stopped *plan.PodStatus
	// defined and definitions are the pod of the last plan.
	defined     *corev1.Pod
	definitions *plan.Definitions
}

// wakeUp makes the worker take a step soon.
func (s *scope) wakeUp() { signal(s.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// advance applies the transition function and returns the new state.
func (s *scope) advance(f stateInput) State {
	before, after := s.mem.advance(f)
	if after != before {
		s.log.Info("Worker changes its state", "from", before, "to", after)
	}
	return after
}

// currentUsable is what the pool says about the runtime.
func (s *scope) currentUsable() Usable {
	if u := s.usable(); u != nil {
		return *u
	}
	return Usable{OK: true}
}

// define returns the definitions of a pod.
func (s *scope) define(pod *corev1.Pod) *plan.Definitions {
	if s.defined != pod {
		s.defined, s.definitions = pod, plan.Define(pod)
	}
	return s.definitions
}

// planInput is what the plan decides on.
func (s *scope) planInput(d desired, observed *plan.PodStatus) plan.Input {
	return plan.Input{
		Pod:         d.pod,
		Previous:    d.previous,
		Observed:    observed,
		Probes:      s.cfg.Prober.Results(s.id.UID),
		Definitions: s.define(d.pod),
		Unconfirmed: !d.seen,
		Actuated:    s.mem.actuated(),
		Prepared:    s.waits.prepared,
		Missing:     s.waits.missing,
		Probed:      s.probed(d),
		Asked:       s.requests.Asked,
		Owed:        s.mem.owed(),
		UnderWay:    s.parts.underWay(),
		Exits:       s.mem.exits(),
		Differences: plan.AllDifferences(),
	}
}

// refresh reports what can be seen while an operation takes its time.
func (s *scope) refresh(ctx context.Context, d desired, begun time.Time) {
	if time.Since(begun) < busyRefresh {
		return
	}
	usable := s.usable()
	observed, err := s.cfg.Runtime.PodStatus(ctx, s.id.UID)
	if err != nil || usable == nil {
		return
	}
	s.show(ctx, d, observed, *usable)
}

// show reports what was observed before or during an operation. A phase that is final is for the
// end of the operation to find: a container that exited may be about to be started again.
func (s *scope) show(ctx context.Context, d desired, observed *plan.PodStatus, usable Usable) {
	if r := s.look(ctx, d, observed, false); !plan.Ended(r.pod.Phase) {
		s.report(d, r, usable)
	}
}

// stillUnderWay returns the latest records of the given kills that have not ended.
func (s *scope) stillUnderWay(kills []plan.KillProgress) []plan.KillProgress {
	return slices.DeleteFunc(s.mem.killsUnderWay(), func(k plan.KillProgress) bool {
		return !slices.ContainsFunc(kills, func(given plan.KillProgress) bool { return given.Record.ID == k.Record.ID })
	})
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
