// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// clockSink writes down when it was called.
type clockSink struct {
	record.EventSink
	at []time.Time
}

func (s *clockSink) Create(e *corev1.Event) (*corev1.Event, error) {
	s.at = append(s.at, time.Now())
	return e, nil
}

func (s *clockSink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) { return s.Create(e) }

// refRecorder keeps what the last event was about.
type refRecorder struct {
	record.EventRecorder
	ref     corev1.ObjectReference
	message string
}

func (r *refRecorder) Event(object runtime.Object, _, _, message string) {
	r.message = message
	if ref, ok := object.(*corev1.ObjectReference); ok {
		r.ref = *ref
	}
}

// badSink panics at each event.
type badSink struct{ record.EventSink }

func (badSink) Create(*corev1.Event) (*corev1.Event, error) { panic("a bug") }

func (badSink) Patch(*corev1.Event, []byte) (*corev1.Event, error) { panic("a bug") }

// A panic about one event is its error.
func TestEventSinkContainsPanics(t *testing.T) {
	late := &lateSink{EventSink: badSink{}, ended: make(chan struct{})}
	if _, err := late.Create(&corev1.Event{}); err == nil {
		t.Error("no error from Create")
	}
	if _, err := late.Patch(&corev1.Event{}, nil); err == nil {
		t.Error("no error from Patch")
	}
}

// Events wait for their moment, each for its own, and not at all at the end.
func TestEventsAreWrittenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, ended := &clockSink{}, make(chan struct{})
		late := &lateSink{EventSink: sink, ended: ended}
		begun := time.Now()
		event := &corev1.Event{LastTimestamp: metav1.NewTime(begun)}
		for range 2 {
			if _, err := late.Create(event); err != nil {
				t.Fatal(err)
			}
		}
		event.LastTimestamp = metav1.NewTime(time.Now())
		close(ended)
		if _, err := late.Patch(event, nil); err != nil {
			t.Fatal(err)
		}
		for i, at := range sink.at {
			if got := at.Sub(begun); got != lateBy {
				t.Errorf("event %d was written after %s, want %s", i, got, lateBy)
			}
		}
	})
}

// An event is about the NodeWorkload that the pod stands for.
func TestEventsNameTheNodeWorkload(t *testing.T) {
	recorder := &refRecorder{}
	e := &events{recorder: recorder, node: "node", ended: make(chan struct{})}
	e.Event(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "u"}}, "spec.containers{c}", corev1.EventTypeNormal, "Killed", "m")
	want := corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeWorkload",
		Namespace: "ns", Name: "n", UID: "u", FieldPath: "spec.containers{c}",
	}
	if recorder.ref != want {
		t.Errorf("event about %+v, want %+v", recorder.ref, want)
	}
	ended := make(chan struct{})
	close(ended)
	recorder.ref, e.ended = corev1.ObjectReference{}, ended
	e.warnNode("ForeignPods", "m")
	if recorder.ref != (corev1.ObjectReference{}) {
		t.Error("an event was written although the process ends")
	}
}

// What a container wrote does not command the terminal of who reads its events.
func TestEventsAreShownAsText(t *testing.T) {
	recorder := &refRecorder{}
	e := &events{recorder: recorder, node: "node", ended: make(chan struct{})}
	e.record(&corev1.ObjectReference{}, corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: \x1b[2J\u009b2J \u202egpj.exe\nnext\tline")
	if want := "Readiness probe failed: \\u001b[2J\\u009b2J \\u202egpj.exe\nnext\tline"; recorder.message != want {
		t.Errorf("message %q, want %q", recorder.message, want)
	}
}

// What a container wrote does not make an event of any size, and a clock that was
// set back does not hold one up.
func TestEventsAreBounded(t *testing.T) {
	if got := bounded(strings.Repeat("ä", maxEventMessage)); len(got) > maxEventMessage+3 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid %t", len(got), utf8.ValidString(got))
	}
	if got := bounded("short"); got != "short" {
		t.Errorf("%q", got)
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		(&lateSink{ended: make(chan struct{})}).wait(&corev1.Event{LastTimestamp: metav1.NewTime(begin.Add(time.Hour))})
		if took := time.Since(begin); took > lateBy {
			t.Errorf("an event of a time to come waited %s", took)
		}
	})
}
