// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// chunk is how much is written at a time, and chunkTimeout how long that may take: a
	// caller that stops reading loses its watch.
	chunk        = 32 << 10
	chunkTimeout = 10 * time.Second
)

// errLost means that the caller has left, or reads too slowly.
var errLost = errors.New("the caller is lost")

// stream writes the events of a watch. It keeps nothing of what it wrote: apiserver's own
// encoder keeps the buffers of its largest event for as long as the watch lasts.
type stream struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	encodings *encodings
	// timeout is how long a chunk may take.
	timeout time.Duration
	// broken: an event was written in part, so that nothing may follow.
	broken bool
}

func newStream(w http.ResponseWriter, e *encodings, timeout time.Duration) *stream {
	return &stream{w: w, control: http.NewResponseController(w), encodings: e, timeout: timeout}
}

// open sends the head of the answer, so that the caller knows that it watches.
func (s *stream) open() error {
	s.w.Header().Set("Content-Type", "application/json")
	s.w.WriteHeader(http.StatusOK)
	return s.flush()
}

// flush sends what was written. Then the deadline is over: in HTTP/2 one that passes resets the
// stream, also of a watch that has nothing to send.
func (s *stream) flush() error {
	s.deadline()
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	s.close()
	return nil
}

// deadline gives what is written next its time.
func (s *stream) deadline() {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // a recorder of tests has none
}

// close ends the deadline, and so leaves the connection to the next request.
func (s *stream) close() { _ = s.control.SetWriteDeadline(time.Time{}) }

// send writes events until ctx is done, or there are no more.
func (s *stream) send(ctx context.Context, events watch.Interface) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case event, more := <-events.ResultChan():
			if !more {
				return context.Cause(ctx)
			}
			if err := s.write(ctx, event.Type, event.Object); err != nil {
				return err
			}
			if len(events.ResultChan()) > 0 {
				continue
			}
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// write writes an event as a line of JSON, unless ctx ends meanwhile.
func (s *stream) write(ctx context.Context, kind watch.EventType, object runtime.Object) error {
	content, done, err := s.encodings.of(object)
	defer done()
	if err != nil {
		return err
	}
	for _, part := range [][]byte{fmt.Appendf(nil, `{"type":%q,"object":`, kind), content, []byte("}\n")} {
		if err := s.part(ctx, part); err != nil {
			return err
		}
	}
	s.broken = false
	return nil
}

// part writes what is a part of an event.
func (s *stream) part(ctx context.Context, content []byte) error {
	for len(content) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		first := content[:min(len(content), chunk)]
		s.broken = true
		s.deadline()
		if _, err := s.w.Write(first); err != nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		content = content[len(first):]
	}
	return nil
}
