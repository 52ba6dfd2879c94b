// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

var errRuntimeNotSeen = errors.New("nothing new is started: the container runtime has not answered yet")

// usability sets whether the workers may use the runtime. Static workloads go by the runtime alone, so that
// they wait for no API server; NodeWorkloads of the API server go by its answers too.
type usability struct {
	pool   workers
	events *events

	mu sync.Mutex
	// runtime is what was seen of the runtime, nil before.
	runtime *podworker.Usable
	// problem is what keeps the API server's NodeWorkloads from starting, "" if nothing does; nil before the
	// cluster is known.
	problem *string
	last    podworker.Usable
}

// setRuntime sets what was seen of the runtime.
func (u *usability) setRuntime(ctx context.Context, runtime podworker.Usable) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.runtime = &runtime
	u.apply(ctx)
}

// setProblem sets what keeps the API server's NodeWorkloads from starting, "" for nothing.
func (u *usability) setProblem(ctx context.Context, problem string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.problem = &problem
	u.apply(ctx)
}

// staticError returns why no static workload may start, nil if they may.
func (u *usability) staticError() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.runtime == nil:
		return errRuntimeNotSeen
	case !u.runtime.OK:
		return fmt.Errorf("nothing new is started: %s: %s", u.runtime.Reason, u.runtime.Message)
	}
	return nil
}

// apply passes it to the workers, and reports it when it has changed. u.mu is held.
func (u *usability) apply(ctx context.Context) {
	if ctx.Err() != nil || u.runtime == nil {
		return
	}
	now := *u.runtime
	u.pool.SetStaticUsable(now)
	if u.problem != nil {
		if now.OK && *u.problem != "" {
			now = podworker.Usable{Reason: v1alpha1.ReasonPolicyNotEnforced, Message: *u.problem}
		}
		u.pool.SetUsable(now)
	}
	if now == u.last {
		return
	}
	was := u.last
	u.last = now
	log := logr.FromContextOrDiscard(ctx)
	switch {
	case now.OK:
		log.Info("Container runtime is usable")
	case now.Reason == v1alpha1.ReasonForeignPods, now.Reason == v1alpha1.ReasonPolicyNotEnforced:
		log.Info("Nothing new is started", "reason", now.Message)
		u.events.warnNode(now.Reason, now.Message)
	case was.Reason != now.Reason:
		log.Info("Container runtime is not ready; retrying", "reason", now.Message)
		u.events.warnNode(now.Reason, now.Message)
	}
}
