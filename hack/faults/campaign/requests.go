// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"slices"
	"sync"
	"time"

	"github.com/managedworkload/managedworkload/hack/faults/history"
)

// requests keeps what was asked for.
type requests struct {
	mu  sync.Mutex
	all []*history.Request
}

// begin keeps a request that is about to be sent.
func (r *requests) begin(q history.Request) *history.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.From = time.Now()
	r.all = append(r.all, &q)
	return &q
}

// acked notes that the API has it.
func (r *requests) acked(q *history.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.Acked = time.Now()
}

// until notes the end of what lasts.
func (r *requests) until(q *history.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.Until = time.Now()
}

func (r *requests) list() []history.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]history.Request, 0, len(r.all))
	for _, q := range r.all {
		list = append(list, *q)
	}
	return slices.Clip(list)
}
