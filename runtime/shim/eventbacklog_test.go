// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
)

// busySink is an API server whose answer to events a test says.
type busySink struct {
	record.EventSink
	mu    sync.Mutex
	err   error
	tries int
	took  []string
	// fails are the namespaces whose events it answers 500, and failed how often it has.
	fails  map[string]bool
	failed int
}

func (s *busySink) write(event *corev1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.fails[event.Namespace] {
		s.failed++
		return apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	if s.err == nil {
		s.took = append(s.took, event.Reason)
	}
	return s.err
}

// seen returns what it took, and how often it failed.
func (s *busySink) seen() (took []string, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.took), s.failed
}

func (s *busySink) Create(event *corev1.Event) (*corev1.Event, error) { return event, s.write(event) }

func (s *busySink) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return event, s.write(event)
}

// An event that the API server does not take holds no other up, and is not lost: once it takes
// events again the newest comes first, and it is asked no sooner than it has said.
func TestEventsOfABusyAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &busySink{}
		backlog := &eventBacklog{added: make(chan struct{}, 1), write: func(_ context.Context, late *lateEvent) error { return sink.write(late.event) }}
		late := &lateSink{EventSink: sink, backlog: backlog, ended: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- backlog.run(ctx) }()
		record := func(reason string) {
			t.Helper()
			begun := time.Now()
			event := &corev1.Event{Reason: reason, LastTimestamp: metav1.NewTime(begun)}
			if _, err := late.Create(event); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > lateBy {
				t.Errorf("event %s held the next one up for %s", reason, took)
			}
			synctest.Wait()
		}
		record("a")
		sink.err = apierrors.NewTooManyRequests("too many requests", 20)
		record("b")
		record("c")
		record("d")
		if sink.tries != 3 { // a, b and b again
			t.Errorf("%d tries", sink.tries)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if sink.tries != 3 {
			t.Errorf("%d tries before the time that the API server has said", sink.tries)
		}
		sink.err = nil
		record("e")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		record("f")
		if want := []string{"a", "e", "d", "c", "b", "f"}; !slices.Equal(sink.took, want) {
			t.Errorf("written %q, want %q", sink.took, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Where the API server fails to take events of one namespace, others do not wait for them, neither those that
// waited already nor new ones. Those that fail are given up at last.
func TestEventsOfANamespaceThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &busySink{fails: map[string]bool{"bad": true}}
		backlog := &eventBacklog{added: make(chan struct{}, 1), write: func(_ context.Context, late *lateEvent) error { return sink.write(late.event) }}
		late := &lateSink{EventSink: sink, backlog: backlog, ended: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		record := func(namespace, name string) {
			t.Helper()
			event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Reason: name, LastTimestamp: metav1.NewTime(time.Now())}
			if _, err := late.Patch(event, nil); err != nil {
				t.Error(err)
			}
		}
		waiting := func() int {
			backlog.mu.Lock()
			defer backlog.mu.Unlock()
			return len(backlog.events)
		}
		record("bad", "first")
		record("good", "a")
		record("bad", "second")
		done := make(chan error, 1)
		go func() { done <- backlog.run(ctx) }()
		synctest.Wait()
		if took, _ := sink.seen(); !slices.Equal(took, []string{"a"}) {
			t.Errorf("written at once: %q, want a", took)
		}
		time.Sleep(20 * time.Second) // the next tries are in 10 s and more
		_, before := sink.seen()
		record("good", "b")
		record("bad", "first") // once more
		synctest.Wait()
		if took, failed := sink.seen(); !slices.Equal(took, []string{"a", "b"}) || failed != before {
			t.Errorf("written while others wait: %q, want a and b; %d tries of these", took, failed-before)
		}
		time.Sleep(time.Hour)
		if n := waiting(); n != 2 {
			t.Errorf("%d wait while the API server has taken no other, want both", n)
		}
		for range 2 * maxAnswers {
			record("good", "c")
			time.Sleep(backlogRetryMax)
		}
		if n := waiting(); n > 0 {
			t.Errorf("%d wait although the API server takes others", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Events wait for an API server that takes none for as long as that lasts, and are tried one at a time.
func TestEventsWaitForAnAPIServerThatIsAway(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		most int // tries in an hour
	}{
		"away":      {errors.New("connection refused"), 130},
		"no leader": {apierrors.NewInternalError(errors.New("etcdserver: no leader")), 3700},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const events = 500
				tries := 0
				b := &eventBacklog{added: make(chan struct{}, 1), write: func(context.Context, *lateEvent) error { tries++; return tt.err }}
				for i := range events {
					b.put(&lateEvent{event: &corev1.Event{Reason: fmt.Sprint(i)}})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := b.run(ctx); err != nil || len(b.events) != events || tries > tt.most {
					t.Errorf("%d of %d wait, %d tries, want %d at most; error %v", len(b.events), events, tries, tt.most, err)
				}
			})
		})
	}
}

// What the API server rejects is not tried again, and what has too many behind it is lost.
func TestBoundsOfTheBacklog(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"away":       {errors.New("connection refused"), true},
		"slow":       {fmt.Errorf("write: %w", context.DeadlineExceeded), true},
		"busy":       {apierrors.NewTooManyRequests("", 1), true},
		"restarting": {apierrors.NewServiceUnavailable(""), true},
		"no leader":  {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), true},
		"a panic":    {fmt.Errorf("write: %w", errPanic), false},
		"rejected":   {apierrors.NewBadRequest(""), false},
		"written":    {apierrors.NewAlreadyExists(corev1.Resource("events"), "e"), false},
		"no error":   {nil, false},
	} {
		if got := mayPass(tt.err); got != tt.want {
			t.Errorf("%s: tried again: %t", name, got)
		}
	}
	b := &eventBacklog{added: make(chan struct{}, 1)}
	for count := range int32(3) {
		for _, name := range []string{"a", "b"} {
			b.put(&lateEvent{event: &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Count: count}, patch: []byte{}})
		}
	}
	if len(b.events) != 2 || b.events[0].event.Count != 2 || b.events[1].event.Count != 2 {
		t.Errorf("%d versions of two events wait", len(b.events))
	}
	b.events = nil
	for i := range maxBacklog + 5 {
		b.put(&lateEvent{event: &corev1.Event{Reason: fmt.Sprint(i)}})
	}
	if len(b.events) != maxBacklog || b.events[0].event.Reason != "5" || b.next().event.Reason != fmt.Sprint(maxBacklog+4) {
		t.Errorf("%d wait, from %s to %s", len(b.events), b.events[0].event.Reason, b.next().event.Reason)
	}
}
