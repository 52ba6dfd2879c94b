// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// A panic about one event does not end the informer's goroutine, and with it the
// manager: an update that cannot be judged goes through.
func TestPanicsAreContained(t *testing.T) {
	calls := 0
	boom := func() { calls++; panic("boom") }
	h := Handler{handler.Funcs{
		CreateFunc: func(context.Context, event.CreateEvent, requestQueue) { boom() },
		UpdateFunc: func(context.Context, event.UpdateEvent, requestQueue) { boom() },
		DeleteFunc: func(context.Context, event.DeleteEvent, requestQueue) { boom() },
	}}
	h.Create(t.Context(), event.CreateEvent{}, nil)
	h.Update(t.Context(), event.UpdateEvent{}, nil)
	h.Delete(t.Context(), event.DeleteEvent{}, nil)
	p := Updates(logr.Discard(), predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { boom(); return false }})
	if !p.Update(event.UpdateEvent{}) || calls != 4 {
		t.Errorf("%d calls; an update that cannot be judged is left out", calls)
	}
}
