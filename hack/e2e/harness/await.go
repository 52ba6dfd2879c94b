// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// errWatchEnded is a watch that the API server closed: it is opened again.
var errWatchEnded = errors.New("the watch ended")

// await watches what is selected until done says so about obj, which read fills. It
// fails the test, with the object as it is, when that does not come to pass.
func await(t *testing.T, e *Env, list client.ObjectList, selected []client.ListOption, obj client.Object, read func(context.Context) error, what string, done func(exists bool) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	err := errWatchEnded
	for errors.Is(err, errWatchEnded) {
		err = watchUntil(ctx, e, list, selected, obj, read, done)
	}
	if err != nil {
		text, _ := yaml.Marshal(obj)
		t.Fatalf("waiting until %s: %v\n%s\n%s", what, err, text, e.tails())
	}
}

// watchUntil opens the watch before it looks, so that nothing falls between.
func watchUntil(ctx context.Context, e *Env, list client.ObjectList, selected []client.ListOption, obj client.Object, read func(context.Context) error, done func(exists bool) bool) error {
	w, err := e.Kube.Watch(ctx, list, selected...)
	if err != nil {
		return waitOr(ctx, err)
	}
	defer w.Stop()
	err = read(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return waitOr(ctx, err)
	}
	if done(err == nil) {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return errWatchEnded
			}
			// The object is read again: obj has to hold it, and may be newer. One that was deleted
			// since, as a request with a TTL of 0 s is, was as the event says.
			err := read(ctx)
			gone := apierrors.IsNotFound(err)
			if err != nil && !gone {
				return waitOr(ctx, err)
			}
			if gone && event.Type != watch.Deleted {
				reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(event.Object).Elem())
				gone = false
			}
			if done(!gone) {
				return nil
			}
		}
	}
}

// waitOr turns an error of an API server that is away into another try.
func waitOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return errors.Join(errWatchEnded, err)
}

// tails are the ends of the logs that tell why something did not happen.
func (e *Env) tails() string {
	var text strings.Builder
	for _, n := range e.Stack.Nodes {
		if n.Shim != nil {
			text.WriteString("--- shim of " + n.NodeName() + " ---\n" + n.Shim.Tail())
		}
	}
	if e.Stack.Manager != nil {
		text.WriteString("--- manager ---\n" + e.Stack.Manager.Tail())
	}
	return text.String()
}
