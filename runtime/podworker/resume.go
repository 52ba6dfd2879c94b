// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// finishResumed finishes the kills that an earlier process left behind, and reports meanwhile what
// can be seen.
func (s *syncer) finishResumed(ctx context.Context, d desired, observed *plan.PodStatus, usable Usable) error {
	if len(s.resume) == 0 {
		return nil
	}
	s.show(ctx, d, observed, usable)
	kills, begun := s.resume, time.Now()
	var err error
	attend(ctx, s.wake,
		func(ctx context.Context) { err = s.cfg.Executor.Resume(ctx, d.pod, kills) },
		func(func()) {
			if now := s.mem.peek(); now.ends() && now.pod != nil {
				s.cfg.Executor.Shorten(s.id.UID, s.endGrace(now))
			}
			s.cfg.Executor.NoteExits(ctx, s.id.UID)
			s.refresh(ctx, d, begun)
		})
	if err != nil {
		s.resume = s.stillUnderWay(kills)
		return fmt.Errorf("finish kills that were under way: %w", err)
	}
	s.resume = nil
	fresh, err := s.cfg.Runtime.PodStatus(ctx, s.id.UID)
	if err != nil {
		return fmt.Errorf("observe after finishing kills: %w", err)
	}
	*observed = *fresh
	return nil
}

// endGrace is the time, in seconds, that the end of the workload leaves to kills under
// way.
func (s *scope) endGrace(d desired) int64 {
	return s.termination(d).Grace(d.pod, plan.Grace{}).Seconds
}
