// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"context"
	"errors"
	"time"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

const (
	// roundPatience is how long a round waits for what is being removed: memory may get short
	// meanwhile.
	roundPatience = 10 * time.Second
	// reclaimTimeout is how long workloads are not ended for disk space while something is being
	// removed. It is as long as the runtime may take for one image.
	reclaimTimeout = 2 * time.Minute
)

// reclaimOutcome is what became of the removal of what no workload needs.
type reclaimOutcome int

const (
	reclaimTooLittle reclaimOutcome = iota
	reclaimEnough
	reclaimUnderWay
)

// reclaim is a removal of what no workload needs.
type reclaim struct {
	begun time.Time
	done  chan struct{}
}

// reclaimed frees what no workload needs, and reports whether that was enough for all thresholds.
// It was not where the signal that was short cannot be read any more. As in each round, another one
// that cannot be read counts as not short: the next round looks again. A removal that takes long
// continues beside the rounds. (kubelet eviction_manager.go:reclaimNodeLevelResources)
func (m *Manager) reclaimed(ctx context.Context, s plan.Signal, separate bool) reclaimOutcome {
	if len(m.config.Reclaimers) == 0 || !plan.ReclaimsImages(s, separate) {
		m.forgetEnded()
		return reclaimTooLittle
	}
	if m.reclaim == nil {
		m.reclaim = m.startReclaim(ctx)
	}
	if !m.reclaim.ends(ctx) {
		if time.Since(m.reclaim.begun) < reclaimTimeout {
			return reclaimUnderWay
		}
		return reclaimTooLittle
	}
	m.reclaim = nil // each round that ends workloads has removed what it could before
	observed, _ := m.observe(ctx)
	if len(observed[s]) > 0 && len(plan.ThresholdsMet(m.config.Thresholds, observed, true)) == 0 {
		return reclaimEnough
	}
	return reclaimTooLittle
}

// startReclaim removes what no workload needs. It is not cut off but by the end of Run: a container
// may be killed before it is removed, and kills are not cancelled.
func (m *Manager) startReclaim(ctx context.Context) *reclaim {
	r := &reclaim{begun: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		var errs []error
		for _, reclaimer := range m.config.Reclaimers {
			errs = append(errs, panics.Contain(m.config.Logger, "removal of what no workload needs", func() error { return reclaimer.Reclaim(ctx) }))
		}
		if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
			m.config.Logger.Info("Failed to remove all dead containers and unused images", "reason", err.Error())
		}
	}()
	return r
}

// forgetEnded forgets a removal that has ended. Each round that needs none calls it: what it left may have been long ago
// when a later one does.
func (m *Manager) forgetEnded() {
	if m.reclaim == nil {
		return
	}
	select {
	case <-m.reclaim.done:
		m.reclaim = nil
	default:
	}
}

// ends waits for the end of a removal, for some time.
func (r *reclaim) ends(ctx context.Context) bool {
	timer := time.NewTimer(roundPatience)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// awaitReclaim waits until nothing is being removed.
func (m *Manager) awaitReclaim() {
	if m.reclaim != nil {
		<-m.reclaim.done
	}
}
