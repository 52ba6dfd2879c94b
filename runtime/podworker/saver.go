// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

const (
	// diskPatience is how long a kill waits for the disk.
	diskPatience = 2 * time.Second
	// The wait between two tries to write a checkpoint.
	saveRetryMin = time.Second
	saveRetryMax = 30 * time.Second
)

// errDiskHangs says that a write has not ended yet.
var errDiskHangs = errors.New("the disk does not answer")

// saver writes the checkpoint of one workload, one write after another, in a goroutine
// of its own: a disk that hangs must hold neither a kill nor the worker.
type saver struct {
	mem     *memory
	store   Store
	metrics *Metrics
	log     logr.Logger
	// wake makes the worker report a trouble, and its end.
	wake func()
	// request holds one token: requests coalesce. turn is held while the store is
	// asked for anything.
	request, turn chan struct{}
	// patience bounds the wait for the removal of the checkpoint.
	patience *hostfs.Patience

	mu sync.Mutex
	// attempted is the latest revision that a write has ended for, well or not, and
	// ended is closed and replaced whenever one has.
	attempted int64
	ended     chan struct{}
	// begun is when the write under way has begun; zero if there is none.
	begun time.Time
}

func newSaver(mem *memory, cfg *Config, log logr.Logger, wake func()) *saver {
	return &saver{
		mem: mem, store: cfg.Store, metrics: cfg.Metrics, log: log, wake: wake,
		request: make(chan struct{}, 1), turn: make(chan struct{}, 1), ended: make(chan struct{}),
		patience: hostfs.NewPatience(diskPatience),
	}
}

// start runs the saver. stop has the latest written and ends it; a disk that hangs does
// not hold the end of the process.
func (s *saver) start() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		s.run(end)
	}()
	return func() {
		s.saveAndWait()
		close(end)
		timer := time.NewTimer(diskPatience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
}

// run writes when asked to, and again after a failure, until the end.
func (s *saver) run(end <-chan struct{}) {
	retry := idleTimer()
	defer retry.Stop()
	s.save()
	delay, waiting := saveRetryMin, false
	for {
		select {
		case <-end:
			return
		case <-s.request:
		case <-retry.C:
			waiting = false
		}
		err := panics.Contain(s.log, "checkpoint", s.write)
		switch {
		case err == nil:
			delay, waiting = saveRetryMin, false
			retry.Stop()
		case waiting:
			// Many changes while the disk fails do not put the next try off.
			s.log.Error(err, "Failed to write checkpoint; a retry is due")
		default:
			s.log.Error(err, "Failed to write checkpoint; retrying", "in", delay.String())
			retry.Reset(jitter(delay))
			delay, waiting = min(2*delay, saveRetryMax), true
		}
	}
}

// save asks for a write and does not wait for it.
func (s *saver) save() { signal(s.request) }

// saveAndWait asks for a write and waits until it has ended, well or not: as long as a
// kill may wait. A write that hangs for that long already is not waited for again.
func (s *saver) saveAndWait() {
	revision, unsaved := s.mem.unsaved()
	if !unsaved {
		return
	}
	timer := time.NewTimer(s.timeLeft())
	defer timer.Stop()
	s.save()
	for {
		s.mu.Lock()
		over, ended := s.attempted >= revision, s.ended
		s.mu.Unlock()
		if over {
			return
		}
		select {
		case <-ended:
		case <-timer.C:
			return
		}
	}
}

// timeLeft is how long the disk may still take.
func (s *saver) timeLeft() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.IsZero() {
		return diskPatience
	}
	return max(0, diskPatience-time.Since(s.begun))
}

// write writes the checkpoint if it is out of date.
func (s *saver) write() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	cp, revision := s.mem.snapshot()
	if cp == nil {
		return nil
	}
	s.begin()
	hangs := time.AfterFunc(diskPatience, s.hangs)
	defer hangs.Stop()
	err := panics.Contain(s.log, "the write of a checkpoint", func() error { return s.store.Save(cp) })
	s.end(revision, err)
	return err
}

func (s *saver) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = time.Now()
}

// hangs notes that the write under way takes too long.
func (s *saver) hangs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun.IsZero() {
		s.note(errDiskHangs)
	}
}

// end wakes those who wait for the end of a write.
func (s *saver) end(revision int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.mem.saved(revision)
	}
	s.note(err)
	s.attempted, s.begun = revision, time.Time{}
	close(s.ended)
	s.ended = make(chan struct{})
}

// note notes why the checkpoint is not written, nil if it is; s.mu is held.
func (s *saver) note(err error) {
	message := ""
	if err != nil {
		message = err.Error()
		s.metrics.saveFailures.Inc()
	}
	if s.mem.setSaveError(message) {
		s.wake()
	}
}

// remove removes the checkpoint for good. A removal that the disk does not answer
// continues, and the next call waits for it.
func (s *saver) remove(ctx context.Context) error {
	s.mem.finalize()
	uid := s.mem.identity().UID
	return s.patience.Do(ctx, "checkpoint of "+string(uid), func() error {
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		return s.store.Remove(uid)
	})
}
