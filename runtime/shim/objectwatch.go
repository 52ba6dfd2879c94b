// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/objects"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

const (
	// The pauses between two watches double from the first to the last, and each is cut by
	// up to a half at random.
	firstPause, lastPause = time.Second, 30 * time.Second
	// gathering is how long events are gathered into one batch.
	gathering = 20 * time.Millisecond
	// sweepInterval is the time between two looks whether what is kept is still needed.
	sweepInterval = time.Minute
)

// objectWatch feeds the store with what the manager sends. Without a workload that refers
// to an object it asks for nothing: the aggregated API may not be installed.
//
// What the store has stays while the manager is away. A watch that has begun sends all of
// the node's objects first; what it has not sent by its bookmark is not the node's any more.
type objectWatch struct {
	client *objectClient
	store  *objects.Store
	// needed is whether a workload of the node refers to an object.
	needed func() bool
	kicked chan struct{}
	log    logr.Logger
	// failure is what the last watch failed with, as it was logged.
	failure string
}

// kick has it looked at whether a watch is needed. It does not block.
func (w *objectWatch) kick() {
	select {
	case w.kicked <- struct{}{}:
	default:
	}
}

// run watches until the context is done.
func (w *objectWatch) run(ctx context.Context) error {
	pause := firstPause
	for ctx.Err() == nil {
		if !w.needed() {
			w.store.Replace(nil)
			pause = firstPause
			select {
			case <-ctx.Done():
			case <-w.kicked:
			}
			continue
		}
		complete, err := w.once(ctx)
		if complete {
			pause = firstPause
		}
		w.report(ctx, err)
		w.rest(ctx, pause-time.Duration(rand.Int64N(int64(pause)/2))) //nolint:gosec // G404: it spreads load
		pause = min(2*pause, lastPause)
	}
	return nil
}

// rest waits before the next watch, unless none is needed any more.
func (w *objectWatch) rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for w.needed() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-w.kicked:
		}
	}
}

// report logs why a watch has failed, once.
func (w *objectWatch) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		w.failure = ""
	case err.Error() != w.failure:
		w.failure = err.Error()
		w.log.Info("Failed to watch the objects of this node's containers; retrying", "reason", w.failure)
	}
}

// once watches until the watch ends or none is needed. It says whether all that there is
// has arrived; a watch that ends by itself is no error.
func (w *objectWatch) once(ctx context.Context) (complete bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	stream, err := w.client.watch(ctx, watchTime+time.Duration(rand.Int64N(int64(watchTime)))) //nolint:gosec // G404: it spreads load
	if err != nil {
		return false, err
	}
	defer stream.close()
	events := make(chan objectEvent)
	failed := make(chan error, 1)
	reading.Go(func() {
		failed <- panics.Contain(w.log, "the watch of objects", func() error { return readEvents(ctx, stream, events) })
	})
	f := &feed{store: w.store, log: w.log, sent: map[objects.Key]bool{}}
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for w.needed() {
		select {
		case <-w.kicked:
		case <-sweep.C:
			w.store.Sweep()
		case event := <-events:
			f.take(event)
			gather(events, f)
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return f.complete, err
		}
	}
	return f.complete, nil
}

// readEvents hands events over until the watch ends.
func readEvents(ctx context.Context, stream *objectStream, events chan<- objectEvent) error {
	for {
		event, err := stream.next()
		if err != nil {
			return err
		}
		select {
		case events <- event:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gather takes what comes within a moment, and has the store take all of it in one call.
func gather(events <-chan objectEvent, f *feed) {
	moment := time.NewTimer(gathering)
	defer moment.Stop()
	for len(f.batch) > 0 {
		select {
		case event := <-events:
			f.take(event)
		case <-moment.C:
			f.flush()
		}
	}
}

// feed is what one watch has sent.
type feed struct {
	store *objects.Store
	log   logr.Logger
	// batch is what the store has not been given yet.
	batch []*v1alpha1.NodeObject
	// sent are the objects of this watch until it has sent all, nil afterwards.
	sent     map[objects.Key]bool
	complete bool
}

// take takes an event: objects wait for the end of the batch.
func (f *feed) take(event objectEvent) {
	if event.kind == watch.Bookmark {
		if event.initialEnd() && !f.complete {
			f.flush()
			f.store.Replace(f.sent)
			f.sent, f.complete = nil, true
		}
		return
	}
	key, err := objects.KeyOf(event.object)
	if err != nil {
		f.log.Error(err, "Ignored an object that the manager sent", "object", event.object.Name)
		return
	}
	if event.kind == watch.Deleted {
		f.flush()
		f.store.Forget(key)
		delete(f.sent, key)
		return
	}
	f.batch = append(f.batch, event.object)
	if !f.complete {
		f.sent[key] = true
	}
}

func (f *feed) flush() {
	if err := f.store.Apply(f.batch...); err != nil {
		f.log.Error(err, "Ignored an object that the manager sent")
	}
	f.batch = nil
}
