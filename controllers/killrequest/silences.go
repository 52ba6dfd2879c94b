// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long a shim may have a request without a word about it, while it responds
// and reports about everything else. One whose worker hangs would be waited for without
// end.
const patience = time.Minute

// silences are since when shims say nothing about requests, by request and node. A manager
// that starts waits for all of that time again.
type silences struct {
	mu    sync.Mutex
	since map[client.ObjectKey]map[string]time.Time
}

// of are those about a request. They are not changed.
func (s *silences) of(request client.ObjectKey) map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since[request]
}

// note replaces those about a request.
func (s *silences) note(request client.ObjectKey, since map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(since) == 0 {
		delete(s.since, request)
		return
	}
	if s.since == nil {
		s.since = map[client.ObjectKey]map[string]time.Time{}
	}
	s.since[request] = since
}

// silentFrom is since when the shim of a node says nothing about the request.
func (f *facts) silentFrom(node string) time.Time {
	if at, ok := f.silentSince[node]; ok {
		return at
	}
	return f.now
}

// silent are since when shims say nothing, by node.
func (f *facts) silent(targets []target) map[string]time.Time {
	since := map[string]time.Time{}
	for i := range targets {
		if t := &targets[i]; t.silent {
			since[t.node] = f.silentFrom(t.node)
		}
	}
	return since
}
