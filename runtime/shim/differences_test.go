// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/runtime/cri"
)

// countedLists is a ready runtime without pods; it counts how often it is listed.
type countedLists struct {
	criClient
	events bool
	lists  atomic.Int32
}

func (r *countedLists) ListPods(context.Context) ([]cri.Pod, error) {
	r.lists.Add(1)
	return nil, nil
}

func (r *countedLists) Healthy() bool                      { return r.events }
func (r *countedLists) Ready(context.Context) error        { return nil }
func (r *countedLists) NetworkReady(context.Context) error { return nil }

// While events arrive a list is the safety net; without them it is all there is.
func TestRelists(t *testing.T) {
	for name, tt := range map[string]struct {
		events      bool
		least, most int32
	}{
		"with events":    {events: true, least: 10, most: 11},
		"without events": {least: 590, most: 610},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, f := &countedLists{events: tt.events}, newKeeper(t, 0)
				o := overseerOf(f, r, f.pool)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute-time.Millisecond)
				defer cancel()
				if err := o.run(ctx); err != nil {
					t.Fatal(err)
				}
				if got := r.lists.Load(); got < tt.least || got > tt.most {
					t.Errorf("%d lists in ten minutes, want %d to %d", got, tt.least, tt.most)
				}
			})
		})
	}
}
