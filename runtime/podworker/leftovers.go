// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// maxLeftoverMessage bounds the list of processes in a record, in bytes.
const maxLeftoverMessage = 1024

// leftovers is what is known of a removal that fails.
type leftovers struct {
	// since is when it failed first, and failures how often it has.
	since    time.Time
	failures int
	// again is when to try again, unless the workload is deleted meanwhile.
	again      time.Time
	forDeleted bool
	// killed are the processes of the last record.
	killed []Leftover
}

// rest is how long to wait before the next try.
func (l *leftovers) rest(deleted bool) time.Duration {
	if deleted != l.forDeleted {
		l.forDeleted, l.again = deleted, time.Time{}
	}
	return time.Until(l.again)
}

// retryLater puts the next try off, from least on longer each time: events about the failure wake the
// worker, too.
func (l *leftovers) retryLater(least time.Duration) time.Duration {
	delay := jitter(min(least<<min(l.failures, 10), errorDelay))
	l.failures++
	l.again = time.Now().Add(delay)
	return delay
}

// free gives back what an ended workload does not need. Where that fails for some time, processes that
// the runtime does not know are in the way: they are killed, once all is dead that it knows. (containerd
// does not remove a container whose start was cut off while the process of that start is there.)
// (kubelet cm/pod_container_manager_linux.go:Destroy)
func (s *remover) free(ctx context.Context, d desired, observed *plan.PodStatus, usable Usable, give func(context.Context, Identity) error) error {
	err := give(ctx, s.id)
	if err == nil {
		s.since, s.failures = time.Time{}, 0
		s.mem.setKillError("")
		return nil
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	if !plan.MayKillLeftovers(observed, time.Since(s.since)) {
		return err
	}
	killed, failed := s.cfg.PodDir.KillLeftovers(ctx, s.id.UID)
	s.recordLeftovers(killed, failed)
	switch {
	case failed != nil:
		if s.mem.setKillError(failed.Error()) {
			s.report(d, s.unseen(), usable)
		}
		return errors.Join(err, failed)
	case len(killed) == 0:
		return err
	}
	if err := give(ctx, s.id); err != nil {
		return err
	}
	s.since, s.failures = time.Time{}, 0
	s.mem.setKillError("")
	return nil
}

// recordLeftovers records what was killed; what does not end has one record.
func (s *remover) recordLeftovers(killed []Leftover, failed error) {
	if len(killed) == 0 || slices.Equal(killed, s.killed) {
		return
	}
	s.killed = killed
	var words []string
	for _, process := range killed {
		words = append(words, fmt.Sprintf("%d (%s)", process.PID, process.Name))
	}
	now := metav1.MicroTime{Time: s.cfg.Clock.Now()}
	rec := plan.LeftoverKill(text.Cut("the runtime has left "+strings.Join(words, ", ")+" in the cgroup of the pod", maxLeftoverMessage))
	rec.ID, rec.Phase, rec.Outcome = string(uuid.NewUUID()), v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced
	rec.StartTime, rec.StopTime, rec.FinishTime = now, &now, &now
	if failed != nil {
		rec.Outcome, rec.Error = v1alpha1.KillOutcomeFailed, text.Cut(failed.Error(), maxLeftoverMessage)
	}
	s.log.Info("Killed processes that the runtime has left in the cgroup of a workload that has ended", "processes", words)
	if s.mem.recordKill(plan.KillProgress{Record: rec}, "") {
		s.cfg.Metrics.killEnded(rec)
	}
	s.saver.save()
	signal(s.news)
}
