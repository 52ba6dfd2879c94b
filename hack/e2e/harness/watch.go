// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watch watches what is selected; what is there already comes first, as added. An API server ends a
// watch at any time, such as that of a client that reads slowly: it is taken up again where it ended,
// so that nothing is missed. It ends with the context, or when it is stopped.
func Watch(ctx context.Context, kube client.WithWatch, list client.ObjectList, selected ...client.ListOption) (watch.Interface, error) {
	if err := kube.List(ctx, list, selected...); err != nil {
		return nil, err
	}
	there, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), again{kube, list, selected})
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event)
	all := watch.NewProxyWatcher(events)
	go forward(there, changes, all, events)
	return all, nil
}

// forward sends what is there, and then the changes, until they end or the watch is stopped.
func forward(there []runtime.Object, changes watch.Interface, all *watch.ProxyWatcher, events chan<- watch.Event) {
	defer close(events)
	defer changes.Stop()
	send := func(e watch.Event) bool {
		select {
		case events <- e:
			return true
		case <-all.StopChan():
			return false
		}
	}
	for _, o := range there {
		if !send(watch.Event{Type: watch.Added, Object: o}) {
			return
		}
	}
	for {
		select {
		case e, open := <-changes.ResultChan():
			if !open || !send(e) {
				return
			}
		case <-all.StopChan():
			return
		}
	}
}

// again opens the watch.
type again struct {
	kube     client.WithWatch
	list     client.ObjectList
	selected []client.ListOption
}

// WatchWithContext opens a watch from a resource version on.
func (a again) WatchWithContext(ctx context.Context, from metav1.ListOptions) (watch.Interface, error) {
	return a.kube.Watch(ctx, a.list, append(slices.Clone(a.selected), &client.ListOptions{Raw: &from})...)
}

// AwaitEvent reads a watch until done says so about an event.
func AwaitEvent(ctx context.Context, w watch.Interface, done func(watch.Event) bool) error {
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		if done(event) {
			return nil
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errors.New("the watch was stopped")
}
