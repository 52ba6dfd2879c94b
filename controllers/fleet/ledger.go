// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Ledger remembers what NodeWorkloads reported until it stands in the status
// of their ManagedWorkload. It is fed by the watch, in order, so that the last
// words of a NodeWorkload that is gone are not lost. Of each NodeWorkload it keeps which
// records it has seen, and of each ManagedWorkload a bounded number of records.
type Ledger struct {
	shims *Shims

	mu    sync.Mutex
	books map[types.UID]*killBook
	// shares are the NodeWorkloads whose end was not seen yet, by UID.
	shares map[types.UID]*reports
	// since is when this manager began to lead, and follows says that another one leads.
	since   time.Time
	follows bool
}

// killBook is the page of one ManagedWorkload.
type killBook struct {
	// owner is the name of that object.
	owner types.NamespacedName
	pending
	// live is how many NodeWorkloads there are whose end was not seen yet.
	live int
	// written is when recentKills were last written.
	written time.Time
	// urgent: the pending records are all that is left of a NodeWorkload.
	urgent bool
}

// reports are what one NodeWorkload reported last.
type reports struct {
	owner types.UID
	kills []reported
}

// reported is a kill record that was seen, as two hashes. content is 0 when it had ended:
// a kill ends once, and later its texts may only get shorter.
type reported struct{ id, content uint64 }

// marks is what the hashes of this process begin with.
var marks = maphash.MakeSeed()

// NewLedger returns an empty ledger of a manager that begins now. How far the nodes' clocks are
// off it knows from shims.
func NewLedger(shims *Shims) *Ledger {
	return &Ledger{shims: shims, books: map[types.UID]*killBook{}, shares: map[types.UID]*reports{}, since: time.Now()}
}

// Follow notes that this manager does not lead yet: what is over is another's to report.
func (l *Ledger) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follows = true
}

// Begin notes that this manager leads from now on: what ended long before was another's to
// report.
func (l *Ledger) Begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.follows = now, false
	for _, b := range l.books {
		b.uncounted = nil
	}
}

// Since is when this manager began to lead.
func (l *Ledger) Since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
}

// bookOf is the page of the object that controls nw, nil if none does.
func (l *Ledger) bookOf(nw *v1alpha1.NodeWorkload) *killBook {
	ref := writes.WorkloadReference(nw)
	if ref == nil {
		return nil
	}
	b, ok := l.books[ref.UID]
	if !ok {
		b = &killBook{owner: types.NamespacedName{Namespace: nw.Namespace, Name: ref.Name}}
		l.books[ref.UID] = b
	}
	return b
}

// Observe takes over what nw reports that it did not report before. words reports whether
// there was anything.
func (l *Ledger) Observe(nw *v1alpha1.NodeWorkload) (words bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, known := l.bookOf(nw), l.shares[nw.UID]
	if known != nil && known.owner != writes.ControllerUID(nw) {
		l.close(nw.UID)
		known = nil
	}
	if b == nil {
		return false
	}
	if known == nil {
		b.live++
	}
	now, words := b.add(nw, known, l.shims.clock(nw.Spec.NodeName), l.since)
	l.shares[nw.UID] = now
	return words
}

// Gone takes over the last words of a NodeWorkload that was deleted. words reports whether
// there were any.
func (l *Ledger) Gone(nw *v1alpha1.NodeWorkload) (words bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, known := l.bookOf(nw), l.shares[nw.UID]
	if b != nil {
		_, words = b.add(nw, known, l.shims.clock(nw.Spec.NodeName), l.since)
		b.urgent = b.any()
	}
	l.close(nw.UID)
	return words
}

// close ends what is kept of a NodeWorkload. l.mu is held.
func (l *Ledger) close(uid types.UID) {
	known, ok := l.shares[uid]
	if !ok {
		return
	}
	delete(l.shares, uid)
	if b := l.books[known.owner]; b != nil {
		b.live--
		if l.follows && b.live == 0 {
			delete(l.books, known.owner)
		}
	}
}

// Lost notes that a NodeWorkload is gone whose last words were missed.
func (l *Ledger) Lost(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.shares[uid]; known != nil {
		if b := l.books[known.owner]; b != nil {
			b.urgent = b.any()
		}
		l.close(uid)
	}
}

// add keeps the records of nw that differ from those it reported last: all of them, for
// those that no status shows count, too.
func (b *killBook) add(nw *v1alpha1.NodeWorkload, last *reports, clock offset, since time.Time) (now *reports, words bool) {
	now = &reports{owner: writes.ControllerUID(nw)}
	kills := nw.Status.Kills
	if len(kills) > 0 {
		now.kills = make([]reported, 0, len(kills))
	}
	for i := range kills {
		mark := markOf(&kills[i])
		now.kills = append(now.kills, mark)
		if last.has(mark) {
			continue
		}
		words = true
		r := killOf(nw, &kills[i])
		r.ObservedTime = b.known(keyOf(&r)).ObservedTime
		at := time.Now()
		switch {
		case r.ObservedTime != nil:
		case clock.wrong() && last.isNews(&kills[i], mark):
			r.ObservedTime = new(metav1.NewMicroTime(at)) // by its own time it could be older than all others
		case last == nil && r.StartTime.After(at.Add(clockTolerance)):
			at = nw.CreationTimestamp.Time // an earlier run of the manager may have seen it long ago
		}
		b.keep(withObservedTime(r, at), since)
	}
	return now, words
}

// has reports whether a record needs no second look.
func (r *reports) has(mark reported) bool {
	return r != nil && slices.ContainsFunc(r.kills, func(known reported) bool {
		return known.id == mark.id && (known.content == 0 || known.content == mark.content)
	})
}

// isNews reports whether a record was not there when the manager looked last, or is an end.
func (r *reports) isNews(k *v1alpha1.KillRecord, mark reported) bool {
	if r == nil {
		return false // the first look: it may have been there for long
	}
	known := slices.ContainsFunc(r.kills, func(known reported) bool { return known.id == mark.id })
	return !known || k.Phase == v1alpha1.KillPhaseDone
}

// markOf is what is kept of a record to know it again.
func markOf(r *v1alpha1.KillRecord) reported {
	mark := reported{id: maphash.String(marks, r.ID)}
	if r.Phase == v1alpha1.KillPhaseDone {
		return mark
	}
	// A record consists of texts, numbers and times: encoding it cannot fail.
	if data, err := json.Marshal(r); err == nil {
		mark.content = max(maphash.Bytes(marks, data), 1)
	}
	return mark
}

// Pending are the records that the status of owner may not show yet.
func (l *Ledger) Pending(owner types.UID) Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[owner]
	if !ok || !b.any() {
		return Pending{}
	}
	return Pending{
		Records: slices.Collect(maps.Values(b.records)), Further: slices.Clone(b.further), Uncounted: maps.Clone(b.uncounted),
	}
}

// Settled forgets records that the status of owner takes account of since now.
func (l *Ledger) Settled(owner types.UID, settled Pending, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[owner]
	if !ok || settled.Empty() {
		return
	}
	b.written = now
	for _, r := range settled.Records {
		if known, ok := b.records[keyOf(&r)]; ok && equality.Semantic.DeepEqual(known, r) {
			delete(b.records, keyOf(&r))
		}
	}
	b.settle(settled)
	b.urgent = b.urgent && b.any()
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
	return !ok || b.live == 0
}

// Forget drops what is remembered of objects of that name.
func (l *Ledger) Forget(owner types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.books, func(_ types.UID, b *killBook) bool { return b.owner == owner })
	maps.DeleteFunc(l.shares, func(_ types.UID, r *reports) bool { return l.books[r.owner] == nil })
}
