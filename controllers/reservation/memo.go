// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// memo is what is remembered of a node between two looks. A manager that starts begins without.
type memo struct {
	// silent is since when there is no Pod, or no answer; zero: there is.
	silent time.Time
	// retries are what was not granted.
	retries retries
	// resized is when a resize was asked for last.
	resized time.Time
	// refusal is why the API server did not take refused for the Pod of refusedBy, at refusedAt.
	refusal   string
	refused   fleet.Amount
	refusedBy types.UID
	refusedAt time.Time
	// said is when a condition was written last.
	said time.Time
}

// refusalOf is why the API server did not take what is wanted of a Pod, which may be nil; "" if it
// did, or was not asked.
func (m *memo) refusalOf(pod *Pod, want fleet.Amount) string {
	if pod == nil || m.refusedBy != pod.UID || m.refused != want || pod.Asked == want {
		return ""
	}
	return m.refusal
}

// memos are those of all nodes.
type memos struct {
	mu     sync.Mutex
	byNode map[string]*memo
}

func newMemos() *memos { return &memos{byNode: map[string]*memo{}} }

// of is a copy of what is remembered of a node.
func (m *memos) of(node string) memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.byNode[node]; known != nil {
		return *known
	}
	return memo{}
}

// change changes what is remembered of a node.
func (m *memos) change(node string, change func(*memo)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byNode[node]
	if known == nil {
		known = &memo{}
		m.byNode[node] = known
	}
	change(known)
}

func (m *memos) forget(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byNode, node)
}
