// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// clusterCheck asks the API server which cluster it is, whether the policies are enforced, and which pods of the
// runtime it does not have. It has a goroutine of its own: the look at the runtime, by which static workloads
// start, waits for no answer.
type clusterCheck struct {
	cluster  *clusterIdentity
	policy   *policyProbe
	orphans  *orphanKeeper
	usable   *usability
	progress *progress
	// lists has the runtime's latest list.
	lists chan runtimeList
}

// runtimeList is what the runtime answered at a look.
type runtimeList struct {
	pods []cri.Pod
	// ok: the runtime answered.
	ok bool
}

// offer passes on the runtime's latest list. Only the overseer calls it; it does not block.
func (c *clusterCheck) offer(list runtimeList) {
	select {
	case <-c.lists:
	default:
	}
	c.lists <- list
}

// run asks at each list, and again while an answer is missing, until the context is done.
func (c *clusterCheck) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var latest runtimeList
	for {
		select {
		case <-ctx.Done():
			return nil
		case latest = <-c.lists:
		case <-timer.C:
		}
		timer.Reset(c.guarded(ctx, latest))
	}
}

// guarded asks, and asks again a while after a panic, which is no progress.
func (c *clusterCheck) guarded(ctx context.Context, list runtimeList) (next time.Duration) {
	err := panics.Contain(logr.FromContextOrDiscard(ctx), "cluster check", func() error {
		next = c.ask(ctx, list)
		return nil
	})
	c.progress.look(err)
	if err != nil {
		return relistForeign
	}
	return next
}

// ask asks the API server, and returns when to ask again if no list comes before.
func (c *clusterCheck) ask(ctx context.Context, list runtimeList) time.Duration {
	if !c.cluster.know(ctx) {
		return relistBlind
	}
	c.progress.step()
	problem := c.orphans.policyProblem(ctx, c.policy)
	c.usable.setProblem(ctx, problem)
	c.progress.step()
	if list.ok {
		c.orphans.consider(ctx, list.pods, c.cluster.current())
	}
	if problem != "" || c.orphans.holding() {
		return relistForeign
	}
	return relistHealthy
}
