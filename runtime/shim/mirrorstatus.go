// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// mirrorStatuses are the statuses that are still to be written into mirrors, which is not waited for: the workers
// of static workloads depend on no API server, and a write that hangs delays only that of the same mirror.
type mirrorStatuses struct {
	mu sync.Mutex
	// latest are those to write, by the UID of the static workload; writing are those with a write under way.
	latest  map[types.UID]*v1alpha1.NodeWorkloadStatus
	writing map[types.UID]bool
	// news holds one token.
	news chan struct{}
}

// offer has a status written instead of an earlier one.
func (s *mirrorStatuses) offer(uid types.UID, st *v1alpha1.NodeWorkloadStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		s.latest, s.writing = map[types.UID]*v1alpha1.NodeWorkloadStatus{}, map[types.UID]bool{}
	}
	s.latest[uid] = st.DeepCopy()
	kick(s.news)
}

// run writes statuses until the context is done.
func (s *mirrorStatuses) run(ctx context.Context, write func(context.Context, types.UID, *v1alpha1.NodeWorkloadStatus)) error {
	var writers sync.WaitGroup
	defer writers.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.news:
		}
		for _, uid := range s.idle() {
			writers.Go(func() {
				for st := s.take(uid); st != nil; st = s.take(uid) {
					_ = panics.Contain(logr.FromContextOrDiscard(ctx), "mirrors of static workloads", func() error { // it is logged
						write(ctx, uid, st)
						return nil
					})
				}
			})
		}
	}
}

// idle returns the workloads with a status to write and no write under way; one is under way now.
func (s *mirrorStatuses) idle() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	uids := slices.DeleteFunc(slices.Collect(maps.Keys(s.latest)), func(uid types.UID) bool { return s.writing[uid] })
	for _, uid := range uids {
		s.writing[uid] = true
	}
	return uids
}

// take returns the latest status of a workload, or nil at the end of its writes.
func (s *mirrorStatuses) take(uid types.UID) *v1alpha1.NodeWorkloadStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.latest[uid]
	delete(s.latest, uid)
	if st == nil {
		delete(s.writing, uid)
	}
	return st
}

// writeStatus writes the status of a static workload into its mirror, if there is one. What fails is
// written again when the mirror is seen next.
func (m *mirrors) writeStatus(ctx context.Context, uid types.UID, st *v1alpha1.NodeWorkloadStatus) {
	id, there := m.of(uid)
	if !there {
		return
	}
	if err := m.publisher.Publish(ctx, id, st); err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("Failed to write the mirror of a static workload; retrying", "uid", uid, "reason", err.Error())
		m.forget(uid)
	}
}

// statusPublisher writes a status into the API.
type statusPublisher interface {
	Publish(ctx context.Context, id podworker.Identity, st *v1alpha1.NodeWorkloadStatus) error
}
