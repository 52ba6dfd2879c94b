// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// retry is the wait before a change is tried again. The pulls of an image have a back-off of their own.
const retry = 10 * time.Second

// errOnTrial says that it is not known yet whether the node can run what a file says.
var errOnTrial = errors.New("its images are pulled before what runs ends")

// trial tries a change of a file, while what ran from the file is kept, until the node can run it.
type trial struct {
	uid  types.UID
	path string
	try  func(context.Context) error
	stop context.CancelFunc
	// said: why the node cannot run it was reported. taken: it has passed.
	said, taken bool

	mu sync.Mutex
	// err is how the latest try ended: errOnTrial before the first has, nil once the node can run it.
	err error
	// since is Source.taken when that try began.
	since int64
}

func (t *trial) latest() (since int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since, t.err
}

func (t *trial) set(since int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since, t.err = since, err
}

// tryChanged leaves of the changed files those that the node can run: what runs would end, and nothing would start.
// A file from which nothing runs is not tried: the status of its workload says what keeps it from starting.
func (s *Source) tryChanged(ctx context.Context, files map[string]file) {
	wanted := map[types.UID]bool{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		if f.err != nil || s.cfg.Try == nil {
			continue
		}
		runs, replaced := s.replaced(path, f.nw, files)
		if !replaced {
			continue
		}
		wanted[f.nw.UID] = true
		err := s.tried(ctx, path, f.nw, runs)
		t := s.trials[f.nw.UID]
		if err != nil {
			files[path] = file{err: err}
		}
		if err != nil && !errors.Is(err, errOnTrial) && !t.said {
			t.said = true // the words of a registry differ from try to try
			s.refuse(path, err)
		}
	}
	for uid, t := range s.trials {
		if !wanted[uid] && !errors.Is(files[t.path].err, errUnsettled) {
			t.stop()
			delete(s.trials, uid)
		}
	}
}

// tried says how the trial of a change has ended. One change is taken at a time: a try that knew nothing of the
// latest begins again, because both may want what the node has once, such as a host port.
func (s *Source) tried(ctx context.Context, path string, nw *template.Workload, runs types.UID) error {
	t := s.trialOf(ctx, path, nw, runs)
	since, err := t.latest()
	if err != nil || t.taken {
		return err
	}
	if s.took {
		s.kick()
		return errOnTrial
	}
	if since != s.taken.Load() {
		t.stop()
		delete(s.trials, nw.UID)
		_, err = s.trialOf(ctx, path, nw, runs).latest()
		return err
	}
	t.taken, s.took = true, true
	return nil
}

// noteTaken has later tries know of the change that was taken in this look, and is handed over.
func (s *Source) noteTaken() {
	if s.took {
		s.took = false
		s.taken.Add(1)
	}
}

// replaced returns the workload that runs from a file, or may run, and that another version of it would end. A
// workload of the same name whose own file is gone runs from that file from now on.
func (s *Source) replaced(path string, nw *template.Workload, files map[string]file) (runs types.UID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workloads[nw.UID] != nil {
		return "", false
	}
	for uid, i := range s.returning {
		if i.path == path {
			return uid, true
		}
	}
	for uid, w := range s.workloads {
		_, there := files[w.path]
		moved := !there && w.nw.Namespace == nw.Namespace && w.nw.Name == nw.Name
		if w.path != path && !moved || w.nw.DeletionTimestamp != nil && !w.shutDown() || !w.mayRun() {
			continue
		}
		if moved {
			w.removed, w.path = w.path, path
		}
		return uid, true
	}
	return "", false
}

// mayRun reports whether something of a workload runs, has run or may run: it would be missed.
func (w *workload) mayRun() bool {
	switch w.nw.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		return w.shutDown() // it runs again
	case corev1.PodPending:
		return slices.ContainsFunc(slices.Concat(w.nw.Status.ContainerStatuses, w.nw.Status.InitContainerStatuses), func(c corev1.ContainerStatus) bool {
			return c.State.Running != nil || c.ContainerID != ""
		})
	case corev1.PodRunning, corev1.PodUnknown:
	}
	return true
}

// trialOf is the trial of a change; it begins unless it is under way.
func (s *Source) trialOf(ctx context.Context, path string, nw *template.Workload, runs types.UID) *trial {
	if t := s.trials[nw.UID]; t != nil {
		t.path = path
		return t
	}
	t := &trial{uid: nw.UID, path: path, try: s.cfg.Try(nw.DeepCopy(), runs), err: errOnTrial}
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
		since := s.taken.Load()
		err := panics.Contain(s.cfg.Log, "trying a static workload", func() error { return t.try(ctx) })
		if ctx.Err() == nil {
			t.set(since, err)
			s.kick()
			if err == nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			if s.cfg.GaveUp != nil && !s.cfg.Has(t.uid) {
				s.cfg.GaveUp(t.uid)
			}
			return
		case <-time.After(retry):
		}
	}
}
