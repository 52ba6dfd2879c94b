// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// killLedger remembers what NodeWorkloads reported until it stands in the status
// of their ManagedWorkload. It is fed by the watch, in order, so that the last
// words of a NodeWorkload that is gone are not lost.
type killLedger struct {
	mu    sync.Mutex
	books map[types.UID]*killBook
}

// killBook is the page of one ManagedWorkload.
type killBook struct {
	// pending are records that its status does not show yet.
	pending map[killKey]v1alpha1.NodeKillRecord
	// live are the NodeWorkloads whose end was not seen yet, with the records
	// they reported last.
	live map[types.UID][]v1alpha1.KillRecord
	// written is when recentKills were last written.
	written time.Time
}

func newKillLedger() *killLedger {
	return &killLedger{books: map[types.UID]*killBook{}}
}

func (l *killLedger) book(owner types.UID) *killBook {
	b, ok := l.books[owner]
	if !ok {
		b = &killBook{pending: map[killKey]v1alpha1.NodeKillRecord{}, live: map[types.UID][]v1alpha1.KillRecord{}}
		l.books[owner] = b
	}
	return b
}

// observe takes over what nw reports that it did not report before. old is the
// object before an update, or nil.
func (l *killLedger) observe(old, nw *v1alpha1.NodeWorkload) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owner := controllerUID(nw)
	if old != nil {
		if before := controllerUID(old); before != owner && before != "" {
			delete(l.book(before).live, nw.UID)
		}
	}
	if owner != "" {
		l.book(owner).add(nw)
	}
}

// gone takes over the last words of a NodeWorkload that was deleted.
func (l *killLedger) gone(nw *v1alpha1.NodeWorkload) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if owner := controllerUID(nw); owner != "" {
		b := l.book(owner)
		b.add(nw)
		delete(b.live, nw.UID)
	}
}

// add keeps the records of nw that differ from those it reported last. No more
// than a status shows are taken from one NodeWorkload.
func (b *killBook) add(nw *v1alpha1.NodeWorkload) {
	last := b.live[nw.UID]
	before := make(map[string]*v1alpha1.KillRecord, len(last))
	for i := range last {
		before[last[i].ID] = &last[i]
	}
	for _, r := range killsOf(nw)[:min(len(nw.Status.Kills), maxRecentKills)] {
		if known, ok := before[r.ID]; ok && equality.Semantic.DeepEqual(*known, r.KillRecord) {
			continue
		}
		b.pending[keyOf(&r)] = r
	}
	b.live[nw.UID] = nw.Status.Kills
}

// pending are the records that the status of owner may not show yet.
func (l *killLedger) pending(owner types.UID) []v1alpha1.NodeKillRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.book(owner)
	records := make([]v1alpha1.NodeKillRecord, 0, len(b.pending))
	for _, r := range b.pending {
		records = append(records, r)
	}
	return records
}

// settled forgets records that the status of owner takes account of since now.
func (l *killLedger) settled(owner types.UID, records []v1alpha1.NodeKillRecord, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.book(owner)
	if len(records) > 0 {
		b.written = now
	}
	for _, r := range records {
		if known, ok := b.pending[keyOf(&r)]; ok && equality.Semantic.DeepEqual(known, r) {
			delete(b.pending, keyOf(&r))
		}
	}
}

func (l *killLedger) lastWrite(owner types.UID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book(owner).written
}

// allGone tells whether the end of every NodeWorkload of owner was seen.
func (l *killLedger) allGone(owner types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.book(owner).live) == 0
}

func (l *killLedger) forget(owner types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.books, owner)
}

// controllerUID is the UID of the ManagedWorkload that controls nw, or "".
func controllerUID(nw *v1alpha1.NodeWorkload) types.UID {
	if ref := metav1.GetControllerOfNoCopy(nw); ref != nil && isWorkloadReference(ref) {
		return ref.UID
	}
	return ""
}

// nameIndex remembers the UID of each ManagedWorkload, so that what is kept by
// UID can be dropped when only the name is known any more.
type nameIndex struct {
	mu   sync.Mutex
	uids map[types.NamespacedName]types.UID
}

func newNameIndex() *nameIndex {
	return &nameIndex{uids: map[types.NamespacedName]types.UID{}}
}

func (x *nameIndex) put(name types.NamespacedName, uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uids[name] = uid
}

func (x *nameIndex) drop(name types.NamespacedName) (types.UID, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	uid, ok := x.uids[name]
	delete(x.uids, name)
	return uid, ok
}
