// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// resumeKills has the kills finished that an earlier process left behind: each beside the others,
// unless there may be an order among them.
func (s *syncer) resumeKills(ctx context.Context, d desired) {
	kills := s.resume
	s.resume = nil
	ordered := slices.ContainsFunc(kills, func(k plan.KillProgress) bool {
		c := podspec.Container(d.pod, k.Record.Container)
		return c != nil && podspec.IsSidecar(c)
	})
	if ordered {
		s.beginResumed(ctx, d, kills)
		return
	}
	for i := range kills {
		s.beginResumed(ctx, d, kills[i:i+1])
	}
}

// beginResumed has kills finished beside the steps of the worker.
func (s *syncer) beginResumed(ctx context.Context, d desired, kills []plan.KillProgress) {
	p := &part{names: map[string]bool{}, request: plan.SyncRequest{Pod: d.pod}, open: kills, done: make(chan struct{})}
	for _, k := range kills {
		p.names[k.Record.Container] = true
	}
	s.carryOutPart(ctx, p, func(ctx context.Context) error {
		return s.cfg.Executor.Resume(context.WithoutCancel(ctx), d.pod, kills)
	})
}

// takeResumed takes over what has become of kills that were finished. What has failed is tried again.
func (s *syncer) takeResumed(p *part) {
	p.ended, p.endedAt = true, time.Now()
	p.cancel()
	p.open = s.leftOpen(p)
	s.parts.noteErrors(p)
	s.mem.setKillError(s.parts.killError())
	if p.err != nil {
		delay := killRetryAfter(s.parts.noteFailure(p))
		p.until = time.Now().Add(delay)
		s.log.Error(p.err, "Failed to finish kills that were under way; retrying", "in", delay.Round(time.Millisecond).String())
	}
}

// leftOpen are the kills of a part that are to be resumed once more.
func (s *scope) leftOpen(p *part) []plan.KillProgress {
	if p.err == nil {
		return nil
	}
	return s.stillUnderWay(p.open)
}

// endGrace is the time, in seconds, that the end of the workload leaves to kills under
// way.
func (s *scope) endGrace(d desired) int64 {
	return s.termination(d).Grace(d.pod, plan.Grace{}).Seconds
}
