// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Delays of the worker. (kubelet kubelet.go:SyncPod, pod_workers.go:completeWork)
const (
	// resyncInterval is the time between two looks without a reason; up to half
	// of it is added. The kubelet takes 60 s; here events wake a worker, and the
	// shim lists the runtime each minute.
	resyncInterval = 120 * time.Second
	// errorDelay is the time until the next try after an error; up to half of it
	// is added.
	errorDelay = 10 * time.Second
	// networkDelay is the time until the next try while the pod network is not
	// ready.
	networkDelay = time.Second
	// repeatDelay is the time until a plan that has changed nothing is carried
	// out again.
	repeatDelay = time.Second
	// imagePatience is how long a step waits for what the runtime says of the images that
	// a change needs, and right before a kill for what it says of each of them.
	imagePatience = time.Second
	// calmDown is how long nothing but a changed workload wakes a worker after
	// an error, so that events which the failed try caused itself do not make it
	// spin.
	calmDown = time.Second
	// busyRefresh is how long an operation may last before the status is
	// refreshed meanwhile.
	busyRefresh = time.Second
	// panicDelayBase and panicDelayMax bound the wait after a panic.
	panicDelayBase = 5 * time.Second
	panicDelayMax  = 5 * time.Minute
)

// killRetry is when a kill is tried again that has failed once more.
func (s *scope) killRetry() time.Duration {
	s.killFailures++
	return killRetryAfter(s.killFailures)
}

// killRetryAfter is when a kill is tried again that has failed so often.
func killRetryAfter(failures int) time.Duration {
	return jitter(plan.KillRetryAfter(failures))
}

// killRetryOf is when to look again for the sake of the kills of a sync: for ever where
// none has failed.
func (s *scope) killRetryOf(outcome plan.SyncOutcome) time.Duration {
	if outcome.KillError == "" {
		s.killFailures = 0
		return math.MaxInt64
	}
	return s.killRetry()
}

// observeRetry is when to look again after the runtime did not answer.
func (s *scope) observeRetry() time.Duration {
	if s.killFailures > 0 || len(s.parts.failures) > 0 {
		return s.killRetry()
	}
	return jitter(errorDelay)
}

// idleTimer returns a timer that is not set. One that is due at once is not made: where two of a
// synctest bubble fire together, Go's race detector crashes.
func idleTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// jitter adds up to half of d.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/2+1) //nolint:gosec // spreading load needs no secret
}
