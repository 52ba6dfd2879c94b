// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/statefile"
)

const (
	// keepAgain is the wait before what failed to be written is written again.
	keepAgain = 5 * time.Second
	// keepPatience is how long the end of the process waits for the disk.
	keepPatience = 2 * time.Second
)

// startKeeping writes what changes in a goroutine of its own: a disk that hangs holds neither the
// workers nor who asks what there is. stop has the latest written; a disk that hangs does not
// hold the end of the process.
func (s *Source) startKeeping() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = panics.Contain(s.cfg.Log, "keeping static workloads", func() error { // it is logged
			s.keep(end)
			return nil
		})
	}()
	return func() {
		close(end)
		timer := time.NewTimer(keepPatience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
}

// keep writes what changed until the end, and once more then.
func (s *Source) keep(end <-chan struct{}) {
	for over := false; !over; {
		var again <-chan time.Time
		if err := panics.Contain(s.cfg.Log, "keeping static workloads", s.keepAll); err != nil {
			s.cfg.Log.Error(err, "Failed to keep static workloads; retrying", "in", keepAgain.String())
			again = time.After(keepAgain)
		}
		select {
		case <-s.changed:
		case <-again:
		case <-end:
			over = true
		}
	}
	if err := panics.Contain(s.cfg.Log, "keeping static workloads", s.keepAll); err != nil {
		s.cfg.Log.Error(err, "Failed to keep static workloads")
	}
}

// save asks for the latest of a workload to be kept. s.mu is held.
func (s *Source) save(uid types.UID) {
	s.unkept[uid] = true
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// keepAll writes the latest of all that changed. What fails stays to be written.
func (s *Source) keepAll() error {
	s.mu.Lock()
	uids := slices.Sorted(maps.Keys(s.unkept))
	s.mu.Unlock()
	var errs []error
	for _, uid := range uids {
		if err := s.keepOne(uid); err != nil {
			errs = append(errs, fmt.Errorf("static workload %s: %w", uid, err))
		}
	}
	return errors.Join(errs...)
}

// keepOne writes the latest of a workload into its file, or removes the file of one that is gone.
func (s *Source) keepOne(uid types.UID) error {
	s.mu.Lock()
	delete(s.unkept, uid)
	var latest workload
	w, there := s.workloads[uid]
	if there {
		latest = *w
	}
	s.mu.Unlock()
	kept := false
	defer func() { // after a panic, too
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case !kept:
			s.unkept[uid] = true
		case s.stale[uid] && !there:
			delete(s.stale, uid)
			s.kick() // it may run again
		}
	}()
	write := func() error { return s.replace(uid, latest) }
	if !there {
		write = func() error { return statefile.Remove(s.pathOf(uid)) }
	}
	if err := write(); err != nil {
		return err
	}
	kept = true
	return nil
}

// replace writes a workload into its file.
func (s *Source) replace(uid types.UID, w workload) error {
	kept := w.nw.DeepCopy()
	if kept.Annotations == nil {
		kept.Annotations = map[string]string{}
	}
	kept.Annotations[annotationFile] = w.path
	data, err := yaml.Marshal(kept)
	if err != nil {
		return err
	}
	return statefile.Replace(s.pathOf(uid), data)
}
