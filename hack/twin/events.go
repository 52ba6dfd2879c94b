// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writers name the component that writes the events of a side.
var writers = map[string]string{"kubelet": "kubelet", "shim": "managedworkload-shim"}

// maxEventLag is how late an event may be written.
const maxEventLag = time.Minute

// eventLags know how far each side is with its events: they are written one after the other,
// nearly in the order in which they happened.
type eventLags struct {
	mu sync.Mutex
	// happened is when the last event happened that a component has written, and written when
	// that was seen.
	happened, written map[string]time.Time
	// about is when the last event about an object, by its UID, was seen.
	about map[string]time.Time
}

func newEventLags() *eventLags {
	return &eventLags{happened: map[string]time.Time{}, written: map[string]time.Time{}, about: map[string]time.Time{}}
}

// watch takes events until the context is done.
func (l *eventLags) watch(ctx context.Context, kube client.WithWatch) error {
	return follow(ctx, kube, &corev1.EventList{}, func(e watch.Event) {
		event, ok := e.Object.(*corev1.Event)
		if !ok {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		component := event.Source.Component
		l.written[component] = time.Now()
		l.about[string(event.InvolvedObject.UID)] = time.Now()
		if event.LastTimestamp.After(l.happened[component]) {
			l.happened[component] = event.LastTimestamp.Time
		}
	})
}

// await returns once a side has written all that happened to an object until a time: a later event
// is there and none about the object has come for a while, or none at all.
func (l *eventLags) await(ctx context.Context, side, uid string, until time.Time) error {
	until = until.Truncate(time.Second).Add(time.Second) // that of an event has no fractions
	began := time.Now()
	for time.Since(began) < maxEventLag {
		if err := pause(ctx, settle/5); err != nil {
			return err
		}
		l.mu.Lock()
		component := writers[side]
		later := !l.happened[component].Before(until) && time.Since(l.about[uid]) > settle
		quiet := time.Since(began) > settle && time.Since(l.written[component]) > settle
		l.mu.Unlock()
		if later || quiet {
			return nil
		}
	}
	return nil
}
