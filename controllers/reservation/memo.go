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
	// tried is when the first condition of the node was written, to see whether its shim keeps it.
	tried time.Time
	// drops is until when nothing is said, because the shim dropped it.
	drops time.Time
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
	// removed are the NodeWorkloads whose condition the manager removes.
	removed map[types.UID]bool
}

func newMemos() *memos { return &memos{byNode: map[string]*memo{}, removed: map[types.UID]bool{}} }

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

// removes notes that the manager removes a condition, or that it did not.
func (m *memos) removes(uid types.UID, yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if yes {
		m.removed[uid] = true
	} else {
		delete(m.removed, uid)
	}
}

// observe notes that a shim dropped a condition. A shim of an earlier version knows none of the
// manager's but one, and writes its status again when it sees another.
func (m *memos) observe(c fleet.Change, until time.Time) {
	if c.Old == nil || c.Old.Reserved == nil || c.New != nil && c.New.UID == c.Old.UID && c.New.Reserved != nil {
		return
	}
	m.mu.Lock()
	ours := m.removed[c.Old.UID]
	delete(m.removed, c.Old.UID)
	m.mu.Unlock()
	if !ours && c.New != nil && c.New.UID == c.Old.UID {
		m.change(c.New.Node, func(known *memo) { known.drops, known.tried = until, time.Time{} })
	}
}
