// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Handler keeps a panic of a handler in the event that it is about: handlers run in
// the goroutines of the informers, where it would end the manager, and again with the
// same object after each restart.
type Handler struct {
	handler.EventHandler
}

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Create implements handler.EventHandler.
func (c Handler) Create(ctx context.Context, e event.CreateEvent, q requestQueue) {
	Do(logr.FromContextOrDiscard(ctx), func() { c.EventHandler.Create(ctx, e, q) })
}

// Update implements handler.EventHandler.
func (c Handler) Update(ctx context.Context, e event.UpdateEvent, q requestQueue) {
	Do(logr.FromContextOrDiscard(ctx), func() { c.EventHandler.Update(ctx, e, q) })
}

// Delete implements handler.EventHandler.
func (c Handler) Delete(ctx context.Context, e event.DeleteEvent, q requestQueue) {
	Do(logr.FromContextOrDiscard(ctx), func() { c.EventHandler.Delete(ctx, e, q) })
}

// Updates is a predicate about updates that contains panics likewise: an update
// that it cannot judge goes through.
func Updates(log logr.Logger, p predicate.Predicate) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  p.Create,
		DeleteFunc:  p.Delete,
		GenericFunc: p.Generic,
		UpdateFunc: func(e event.UpdateEvent) bool {
			through := true
			Do(log, func() { through = p.Update(e) })
			return through
		},
	}
}

// Call calls do and returns its error, or an error in place of its panic, which is logged.
func Call(log logr.Logger, do func() error) error {
	err := errPanic
	Do(log, func() { err = do() })
	return err
}

// errPanic is the error of what panicked.
var errPanic = errors.New("panic: see the log")

// Do calls do; a panic is logged.
func Do(log logr.Logger, do func()) {
	defer func() {
		if r := recover(); r != nil {
			log.Error(fmt.Errorf("panic: %v", r), "Recovered from a panic in a watch", "stack", string(debug.Stack()))
		}
	}()
	do()
}
