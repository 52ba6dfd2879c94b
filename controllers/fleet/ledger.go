// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Ledger remembers what NodeWorkloads reported until it stands in the status
// of their ManagedWorkload. It is fed by the watch, in order, so that the last
// words of a NodeWorkload that is gone are not lost.
type Ledger struct {
	mu    sync.Mutex
	books map[types.UID]*killBook
}

// killBook is the page of one ManagedWorkload.
type killBook struct {
	// owner is the name of that object.
	owner types.NamespacedName
	// Pending are records that its status does not show yet.
	pending map[killKey]v1alpha1.NodeKillRecord
	// live are the NodeWorkloads whose end was not seen yet, with the records
	// they reported last.
	live map[types.UID][]v1alpha1.KillRecord
	// written is when recentKills were last written.
	written time.Time
	// urgent: the pending records are all that is left of a NodeWorkload.
	urgent bool
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{books: map[types.UID]*killBook{}}
}

// bookOf is the page of the object that controls nw, nil if none does.
func (l *Ledger) bookOf(nw *v1alpha1.NodeWorkload) *killBook {
	ref := writes.WorkloadReference(nw)
	if ref == nil {
		return nil
	}
	b, ok := l.books[ref.UID]
	if !ok {
		b = &killBook{
			owner:   types.NamespacedName{Namespace: nw.Namespace, Name: ref.Name},
			pending: map[killKey]v1alpha1.NodeKillRecord{}, live: map[types.UID][]v1alpha1.KillRecord{},
		}
		l.books[ref.UID] = b
	}
	return b
}

// Observe takes over what nw reports that it did not report before. old is the
// object before an update, or nil.
func (l *Ledger) Observe(old, nw *v1alpha1.NodeWorkload) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old != nil && writes.ControllerUID(old) != writes.ControllerUID(nw) {
		if b := l.bookOf(old); b != nil {
			delete(b.live, nw.UID)
		}
	}
	if b := l.bookOf(nw); b != nil {
		b.add(nw)
	}
}

// Gone takes over the last words of a NodeWorkload that was deleted.
func (l *Ledger) Gone(nw *v1alpha1.NodeWorkload) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.bookOf(nw); b != nil {
		b.add(nw)
		delete(b.live, nw.UID)
		b.urgent = len(b.pending) > 0
	}
}

// add keeps the records of nw that differ from those it reported last. No more
// than a status shows are taken from one NodeWorkload.
func (b *killBook) add(nw *v1alpha1.NodeWorkload) {
	last, seen := b.live[nw.UID]
	before := make(map[string]*v1alpha1.KillRecord, len(last))
	for i := range last {
		before[last[i].ID] = &last[i]
	}
	for _, r := range killsOf(nw)[:min(len(nw.Status.Kills), maxRecentKills)] {
		known, ok := before[r.ID]
		if ok && (known.Phase == v1alpha1.KillPhaseDone || equality.Semantic.DeepEqual(*known, r.KillRecord)) {
			continue // a kill ends once; later its texts may only get shorter
		}
		r.ObservedTime = b.pending[keyOf(&r)].ObservedTime
		at := time.Now()
		if !seen && r.StartTime.After(at.Add(clockTolerance)) {
			at = nw.CreationTimestamp.Time // an earlier run of the manager may have seen it long ago
		}
		b.pending[keyOf(&r)] = withObservedTime(r, at)
	}
	b.live[nw.UID] = nw.Status.Kills
}

// Pending are the records that the status of owner may not show yet.
func (l *Ledger) Pending(owner types.UID) []v1alpha1.NodeKillRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[owner]
	if !ok {
		return nil
	}
	return slices.Collect(maps.Values(b.pending))
}

// Settled forgets records that the status of owner takes account of since now.
func (l *Ledger) Settled(owner types.UID, records []v1alpha1.NodeKillRecord, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[owner]
	if !ok || len(records) == 0 {
		return
	}
	b.written = now
	for _, r := range records {
		if known, ok := b.pending[keyOf(&r)]; ok && equality.Semantic.DeepEqual(known, r) {
			delete(b.pending, keyOf(&r))
		}
	}
	b.urgent = b.urgent && len(b.pending) > 0
}

// LastWrite is when recentKills were last written, or never when they may not wait:
// the last records of a NodeWorkload that is gone are kept only here.
func (l *Ledger) LastWrite(owner types.UID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.books[owner]; ok && !b.urgent {
		return b.written
	}
	return time.Time{}
}

// AllGone reports whether the end of every NodeWorkload of owner was seen.
func (l *Ledger) AllGone(owner types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[owner]
	return !ok || len(b.live) == 0
}

// Forget drops what is remembered of objects of that name.
func (l *Ledger) Forget(owner types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.books, func(_ types.UID, b *killBook) bool { return b.owner == owner })
}
