// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// turnPatience is how long the index may lack what was written within the budget of a
// roll-out: an etcd that was restored from a backup may never come to that resourceVersion.
const turnPatience = 30 * time.Second

// turns let one writer at a time use up what maxUnavailable of a ManagedWorkload leaves: its
// roll-out, and each KillRequest. Two that look at the same nodes would each take the last
// place.
type turns struct {
	mu sync.Mutex
	of map[types.UID]*turnState
}

// turnState is how far the turns of a workload are.
type turnState struct {
	taken bool
	// count is how many turns have written, and version and at what they wrote last.
	count   int64
	version string
	at      time.Time
}

// Turn is a look at the nodes of a workload that may become a turn.
type Turn struct {
	workload types.UID
	count    int64
	free     bool
}

// Turn begins a look at the nodes of the workload of that UID. It has to be asked for before
// their Shares.
func (x *Index) Turn(workload types.UID, now time.Time) Turn {
	s := x.turns.get(workload)
	seen := x.Seen(s.version) || now.Sub(s.at) >= turnPatience
	return Turn{workload: workload, count: s.count, free: seen && !s.taken}
}

// Take takes the turn, if no other has it and the look showed everything that was written in
// others. Leave ends it.
func (x *Index) Take(t Turn) bool {
	x.turns.mu.Lock()
	defer x.turns.mu.Unlock()
	s := x.turns.state(t.workload)
	if !t.free || s.taken || s.count != t.count {
		return false
	}
	s.taken = true
	return true
}

// Leave ends a turn that was taken, in which a resourceVersion was written, "" for nothing.
func (x *Index) Leave(t Turn, version string, now time.Time) {
	x.turns.mu.Lock()
	defer x.turns.mu.Unlock()
	s := x.turns.state(t.workload)
	s.taken = false
	s.note(version, now)
}

// Wrote notes a resourceVersion that takes up budget and was written in no turn: the next
// turn begins when the index has it.
func (x *Index) Wrote(workload types.UID, version string, now time.Time) {
	x.turns.mu.Lock()
	defer x.turns.mu.Unlock()
	x.turns.state(workload).note(version, now)
}

// note notes what was written. What was not seen until now is not waited for any more.
func (s *turnState) note(version string, now time.Time) {
	if version == "" {
		return
	}
	if now.Sub(s.at) < turnPatience {
		version = Later(s.version, version)
	}
	s.count, s.version, s.at = s.count+1, version, now
}

// get is how far the turns of a workload are.
func (t *turns) get(workload types.UID) turnState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.of[workload]; s != nil {
		return *s
	}
	return turnState{}
}

// state is that of a workload. t.mu is held.
func (t *turns) state(workload types.UID) *turnState {
	if t.of == nil {
		t.of = map[types.UID]*turnState{}
	}
	if t.of[workload] == nil {
		t.of[workload] = &turnState{}
	}
	return t.of[workload]
}

// forget drops the turns of a workload that has no NodeWorkload left.
func (t *turns) forget(workload types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.of[workload]; s != nil && !s.taken {
		delete(t.of, workload)
	}
}
