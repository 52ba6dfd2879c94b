// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

const (
	// maxEvent bounds one event: an object of 1 MiB takes a third more in JSON.
	maxEvent = 4 << 20
	// maxBuffer is the largest event whose buffer is kept for the next.
	maxBuffer = 64 << 10
)

// objectEvent is what a watch has sent.
type objectEvent struct {
	kind   watch.EventType
	object *v1alpha1.NodeObject
}

// initialEnd is whether all that there is was sent.
func (e objectEvent) initialEnd() bool {
	return e.kind == watch.Bookmark && e.object.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}

// objectStream reads the events of a watch. client-go's own reader keeps buffers of the
// largest event for as long as the watch lives, which would be megabytes for an hour.
type objectStream struct {
	body    io.ReadCloser
	cancel  func()
	bounded *boundedReader
	// source is what the decoder reads: what an earlier one has read too much of, then bounded.
	source  io.Reader
	decoder *json.Decoder
}

func newObjectStream(body io.ReadCloser, cancel func()) *objectStream {
	bounded := &boundedReader{reader: body, left: maxEvent}
	return &objectStream{body: body, cancel: cancel, bounded: bounded, source: bounded, decoder: json.NewDecoder(bounded)}
}

// close ends the watch, and a next that waits.
func (s *objectStream) close() {
	s.cancel()
	_ = s.body.Close() // it was only read
}

// next returns the next event. The API server's refusal is an error of apierrors, and the
// end of the watch io.EOF.
func (s *objectStream) next() (objectEvent, error) {
	var raw struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := s.decoder.Decode(&raw); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, errEventTooLong) {
			return objectEvent{}, err
		}
		return objectEvent{}, fmt.Errorf("read an event: %w", err)
	}
	s.reset(len(raw.Object))
	switch raw.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		object := &v1alpha1.NodeObject{}
		if err := json.Unmarshal(raw.Object, object); err != nil {
			return objectEvent{}, fmt.Errorf("decode a NodeObject: %w", err)
		}
		return objectEvent{kind: raw.Type, object: object}, nil
	case watch.Error:
		status := &metav1.Status{}
		if err := json.Unmarshal(raw.Object, status); err != nil {
			return objectEvent{}, fmt.Errorf("decode the error of a watch: %w", err)
		}
		return objectEvent{}, apierrors.FromObject(status)
	}
	return objectEvent{}, fmt.Errorf("type: %q is unknown", raw.Type)
}

// reset allows for another event, and lets the buffer of a large one go: what of it is not
// read yet is read first.
func (s *objectStream) reset(size int) {
	s.bounded.left = maxEvent
	if size > maxBuffer {
		s.source = io.MultiReader(s.decoder.Buffered(), s.source)
		s.decoder = json.NewDecoder(s.source)
	}
}

// errEventTooLong says that an event is longer than any object can be.
var errEventTooLong = fmt.Errorf("an event is longer than %d bytes", maxEvent)

// boundedReader fails where more is read than is left.
type boundedReader struct {
	reader io.Reader
	left   int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errEventTooLong
	}
	n, err := b.reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
