// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// answerTimeout is how long the bookmark after the initial objects waits for the API server's
// answer about one.
const answerTimeout = 5 * time.Second

// subscription is the watch of a node. It remembers keys and versions, and no object: what is
// sent is what is known when the receiver takes it, so that a slow one gets the newest.
type subscription struct {
	hub    *Hub
	node   string
	cancel context.CancelFunc
	result chan watch.Event
	// woken: there may be something to send.
	woken chan struct{}

	// What follows is guarded by the mutex of the hub.

	wanted map[apiobjects.Key]bool
	// sent are the versions that the receiver has, 0 for none that the API server gave.
	sent map[apiobjects.Key]uint64
	// queue are the keys to look at, each once, as marked has them.
	queue  []apiobjects.Key
	marked map[apiobjects.Key]bool
	// awaited are the initial keys of which nothing was sent yet; bookmarked: all were sent,
	// and the bookmark.
	awaited    map[apiobjects.Key]bool
	bookmarked bool
	// overdue: what the API server did not answer yet is sent as unavailable.
	overdue bool
}

func newSubscription(h *Hub, node string) *subscription {
	return &subscription{
		hub: h, node: node, result: make(chan watch.Event), woken: make(chan struct{}, 1),
		sent: map[apiobjects.Key]uint64{}, marked: map[apiobjects.Key]bool{}, awaited: map[apiobjects.Key]bool{},
	}
}

// begin notes which keys are the initial ones. Service accounts are none: no container waits for
// what is known of them, and finding it out may take long. The mutex is held.
func (s *subscription) begin() {
	for key := range s.wanted {
		if key.Kind != apiobjects.ServiceAccount {
			s.awaited[key] = true
		}
	}
}

// Stop implements watch.Interface.
func (s *subscription) Stop() { s.cancel() }

// ResultChan implements watch.Interface.
func (s *subscription) ResultChan() <-chan watch.Event { return s.result }

// mark has a key looked at. The mutex of the hub is held.
func (s *subscription) mark(key apiobjects.Key) {
	if !s.marked[key] {
		s.marked[key] = true
		s.queue = append(s.queue, key)
	}
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// run sends events until ctx is done.
func (s *subscription) run(ctx context.Context) {
	defer close(s.result)
	defer s.hub.leave(s)
	s.deliver(ctx)
}

func (s *subscription) deliver(ctx context.Context) {
	done, err := s.hub.turn(ctx)
	if err != nil {
		return
	}
	defer done()
	late := time.NewTimer(answerTimeout)
	defer late.Stop()
	for {
		o, found := s.next()
		if !found {
			select {
			case <-s.woken:
			case <-late.C:
				s.expire()
			case <-ctx.Done():
				return
			}
			continue
		}
		select {
		case s.result <- o.event:
			s.taken(o)
		case <-s.woken: // it may hold no more
			continue
		case <-ctx.Done():
			return
		}
		if o.event.Type == watch.Bookmark {
			done()
		}
	}
}

// offer is an event that the receiver has not taken yet.
type offer struct {
	event   watch.Event
	key     apiobjects.Key
	version uint64
}

// taken notes that the receiver has an event. Its key, the first of the queue, is looked at again after
// the others: it may have changed meanwhile.
func (s *subscription) taken(o offer) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	switch o.event.Type {
	case watch.Bookmark:
		s.bookmarked = true
		return
	case watch.Deleted:
		delete(s.sent, o.key)
	case watch.Added, watch.Modified, watch.Error:
		s.sent[o.key] = o.version
	}
	delete(s.awaited, o.key)
	s.queue = append(s.queue[1:], o.key)
}

// expire gives up waiting for what the API server did not answer.
func (s *subscription) expire() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.overdue = true
	for key := range s.awaited {
		s.mark(key)
	}
}

// next is the next event, made of what is known now; found is false if there is none. It is the
// same until it is taken, or something changes.
func (s *subscription) next() (o offer, found bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for {
		if len(s.awaited) == 0 && !s.bookmarked {
			return offer{event: s.bookmark()}, true
		}
		if len(s.queue) == 0 {
			s.queue = nil
			return offer{}, false
		}
		key := s.queue[0]
		if o, found := s.about(key); found {
			return o, true
		}
		s.queue = s.queue[1:]
		delete(s.marked, key)
	}
}

// about is the event that says what is not sent of a key yet. The mutex is held.
func (s *subscription) about(key apiobjects.Key) (offer, bool) {
	had, sent := s.sent[key]
	if !s.wanted[key] {
		if !sent {
			delete(s.awaited, key)
		}
		return offer{event: watch.Event{Type: watch.Deleted, Object: blank(key)}, key: key}, sent
	}
	o := s.hub.objects[key]
	if o == nil || o.state == nil {
		if sent || !s.overdue || !s.awaited[key] {
			return offer{}, false
		}
		return offer{event: watch.Event{Type: watch.Added, Object: unavailable(key, "the API server has not answered yet")}, key: key}, true
	}
	if sent && had == o.version {
		return offer{}, false
	}
	kind := watch.Added
	if sent {
		kind = watch.Modified
	}
	// A copy of its own: who encodes it sets its kind. Data is shared.
	own := *o.state
	return offer{watch.Event{Type: kind, Object: &own}, key, o.version}, true
}

// bookmark ends the initial events. The mutex is held.
func (s *subscription) bookmark() watch.Event {
	mark := &subresources.NodeObject{TypeMeta: blank(apiobjects.Key{}).TypeMeta}
	mark.ResourceVersion = strconv.FormatUint(s.hub.version, 10)
	mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return watch.Event{Type: watch.Bookmark, Object: mark}
}
