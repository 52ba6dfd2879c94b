// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// retry is the wait before a change is tried again. The pulls of an image have a back-off of their own.
const retry = 10 * time.Second

// errOnTrial says that it is not known yet whether the node can run what a file says.
var errOnTrial = errors.New("the node gets what its start needs")

// trial tries a change of a file, while what ran from the file is kept, until the node can run it.
type trial struct {
	nw *v1alpha1.NodeWorkload
	// runs is what runs from the file.
	runs types.UID
	stop context.CancelFunc

	mu sync.Mutex
	// err is how the latest try ended: errOnTrial before the first has, nil once the node can run it.
	err error
}

func (t *trial) latest() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *trial) set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

// tryChanged leaves of the changed files those that the node can run: what runs would end, and nothing would start.
// A file from which nothing runs is not tried: it is its worker's, and its status says what keeps it from starting.
func (s *Source) tryChanged(ctx context.Context, files map[string]file) {
	wanted := map[types.UID]bool{}
	for path, f := range files {
		if f.err != nil || s.cfg.Try == nil {
			continue
		}
		runs, replaced := s.replaced(path, f.nw)
		if !replaced {
			continue
		}
		wanted[f.nw.UID] = true
		if err := s.trialOf(ctx, f.nw, runs).latest(); err != nil {
			files[path] = file{err: err}
			if !errors.Is(err, errOnTrial) {
				s.refuse(path, err)
			}
		}
	}
	for uid, t := range s.trials {
		if !wanted[uid] {
			t.stop()
			delete(s.trials, uid)
		}
	}
}

// replaced returns the workload that runs from a file, or may run, and that another version of it would end.
func (s *Source) replaced(path string, nw *v1alpha1.NodeWorkload) (runs types.UID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workloads[nw.UID] != nil {
		return "", false
	}
	for uid, w := range s.workloads {
		phase := w.nw.Status.Phase
		if w.path == path && w.nw.DeletionTimestamp == nil && (phase == "" || phase == corev1.PodUnknown || phase == corev1.PodRunning) {
			return uid, true
		}
	}
	return "", false
}

// trialOf is the trial of a change; it begins unless it is under way.
func (s *Source) trialOf(ctx context.Context, nw *v1alpha1.NodeWorkload, runs types.UID) *trial {
	if t := s.trials[nw.UID]; t != nil {
		return t
	}
	t := &trial{nw: nw.DeepCopy(), runs: runs, err: errOnTrial}
	ctx, t.stop = context.WithCancel(ctx)
	s.trials[nw.UID] = t
	s.trying.Go(func() {
		_ = panics.Contain(s.cfg.Log, "trying a static workload", func() error { // it is logged
			s.try(ctx, t)
			return nil
		})
	})
	return t
}

// try tries a change again and again, until the node can run it or the context is done.
func (s *Source) try(ctx context.Context, t *trial) {
	for {
		err := panics.Contain(s.cfg.Log, "trying a static workload", func() error { return s.cfg.Try(ctx, t.nw, t.runs) })
		if ctx.Err() == nil {
			t.set(err)
			s.kick()
			if err == nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			if s.cfg.GaveUp != nil {
				s.cfg.GaveUp(t.nw.UID)
			}
			return
		case <-time.After(retry):
		}
	}
}
