// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stops are the requests that keep containers stopped wherever their workload comes, as they
// were looked at last.
type stops struct {
	mu sync.Mutex
	// workloads are those of the requests, and requests those of the workloads.
	workloads map[client.ObjectKey]client.ObjectKey
	requests  map[client.ObjectKey]map[client.ObjectKey]bool
}

// of are the requests for a workload.
func (s *stops) of(namespace, workload string) []client.ObjectKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.requests[client.ObjectKey{Namespace: namespace, Name: workload}]))
}

// all are those of all workloads.
func (s *stops) all() []client.ObjectKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.workloads))
}

// note notes the workload of a request, "" for one that is over.
func (s *stops) note(request client.ObjectKey, workload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := client.ObjectKey{Namespace: request.Namespace, Name: workload}, s.workloads[request]
	if before == now {
		return
	}
	delete(s.requests[before], request)
	if len(s.requests[before]) == 0 {
		delete(s.requests, before)
	}
	delete(s.workloads, request)
	if workload == "" {
		return
	}
	if s.workloads == nil {
		s.workloads, s.requests = map[client.ObjectKey]client.ObjectKey{}, map[client.ObjectKey]map[client.ObjectKey]bool{}
	}
	s.workloads[request] = now
	if s.requests[now] == nil {
		s.requests[now] = map[client.ObjectKey]bool{}
	}
	s.requests[now][request] = true
}
